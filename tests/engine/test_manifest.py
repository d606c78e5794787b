import json
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from engine import config, manifest
from engine.errors import RecordError
from scripts.hydra_app import CONF


def name(*overrides: str) -> str:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        node = compose("sweep", overrides=["backend=fake", *overrides])
    resolved: dict[str, Any] = OmegaConf.to_container(node, resolve=True)  # type: ignore[assignment]
    sweep = config.load(resolved)
    fingerprint = sweep.backend.fingerprint(sweep.model)
    source = sweep.env.source()
    return manifest.run_name(sweep, source, manifest.identity(resolved, sweep, source, fingerprint))


def test_paths_and_display_do_not_make_another_run() -> None:
    assert name() == name("paths.runs=/elsewhere", "display.mode=off", "display.line_s=3")


@pytest.mark.parametrize(
    "override",
    ["seed=1", "strategy=retry", "memory.limit=2", "sampling.actor.temperature=0.5", "tasks.first=3"],
)
def test_whatever_else_changes_makes_another_run(override: str) -> None:
    assert name() != name(override)


def test_data_are_known_by_their_contents_not_by_their_place(tmp_path: Path) -> None:
    line = {"task_id": "T/0", "prompt": "def f(x):\n", "entry_point": "f"}
    first = {**line, "test": "def check(candidate):\n    assert candidate(1) == 1\n"}
    other = {**line, "test": "def check(candidate):\n    assert candidate(1) == 2\n"}
    for folder, record in (("a", first), ("b", first), ("c", other)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tasks.jsonl").write_text(json.dumps(record) + "\n")
    names = [name(f"env.data={tmp_path / folder / 'tasks.jsonl'}") for folder in "abc"]
    assert names[0] == names[1] != names[2]


def test_prompts_are_known_by_their_contents(tmp_path: Path) -> None:
    pack = tmp_path / "pack" / "programming"
    pack.mkdir(parents=True)
    (pack / "actor.j2").write_text('{% include "rules.txt" %}')
    (pack / "rules.txt").write_text("be brief")
    before = name(f"prompts.folder={tmp_path / 'pack'}")
    (pack / "rules.txt").write_text("be thorough")
    assert name(f"prompts.folder={tmp_path / 'pack'}") != before


@pytest.mark.parametrize("text", ["{}", "[1]", "{", "\x00\x01", '{"run": "x"}'])
def test_a_damaged_manifest_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RecordError, match=r"manifest.json: is damaged .*; move the folder away"):
        manifest.read(tmp_path)
