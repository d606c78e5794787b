"""Every mistake of the user is one clear line and exit code 2, before a model is loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TASK = {"task_id": "T/0", "prompt": "def f():\n", "entry_point": "f", "test": "def check(c):\n    pass\n"}


def sweep(tmp_path: Path, *overrides: str, environment: dict[str, str] | None = None) -> str:
    """The one line on stderr."""
    command = [sys.executable, "scripts/sweep.py", *overrides, f"paths.runs={tmp_path / 'runs'}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert done.returncode == 2, done.stderr + done.stdout
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("memory.limt=3", "memory.limt: unknown option; did you mean limit?"),
        ("memry=last3", "memry: unknown option; did you mean memory?"),
        ("memory=last2", "memory: there is no 'last2' in conf/memory; did you mean last3?"),
        ("env=humanevl", "env: there is no 'humanevl' in conf/env; did you mean humaneval?"),
        ("memory.limit=-1", "memory.limit: must be 0 or more, got -1"),
        ("memory.limit=many", "memory.limit: Input should be a valid integer, got 'many'"),
        ("limits.max_trials=0", "limits.max_trials: must be 1 or more, got 0"),
        ("+surprise=1", "surprise: unknown option"),
        ("actor._target_=os.system", "actor._target_: os.system is outside this project"),
        ("tasks.ids=[Starter/999]", "tasks.ids: there is no task 'Starter/999'; did you mean Starter/"),
        ("prompts.folder=nonesuch", "prompts.folder: no folder and no pack called 'nonesuch'"),
        ("env.data=nonesuch.jsonl", "nonesuch.jsonl"),
        ("model.id=./nonesuch", "model.id: "),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(
    tmp_path: Path, override: str, expected: str
) -> None:
    assert expected in sweep(tmp_path, override)


def test_a_multirun_is_checked_as_a_whole_before_its_first_cell(tmp_path: Path) -> None:
    line = sweep(tmp_path, "-m", "memory.limit=1,-1", "backend=fake")
    assert line == "memory.limit: must be 0 or more, got -1"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(TASK) + "\n{broken\n", ":2: "),
        (json.dumps({**TASK, "prompt": None}) + "\n", ":1: "),
        (json.dumps(TASK) + "\n" + json.dumps(TASK) + "\n", ":2: "),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(tmp_path: Path, text: str, expected: str) -> None:
    data = tmp_path / "tasks.jsonl"
    data.write_text(text)
    assert f"{data}{expected}" in sweep(tmp_path, "env=humaneval", f"env.data={data}")


def test_a_context_too_small_for_the_examples_is_refused(tmp_path: Path) -> None:
    line = sweep(tmp_path, "backend=fake", "backend.context_tokens=64")
    assert "a context of 64 tokens is too small" in line


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    import sqlite3

    command = ["backend=fake", "tasks.first=1", f"paths.runs={tmp_path / 'runs'}", "strategy=single"]
    subprocess.run(
        [sys.executable, "scripts/sweep.py", *command], cwd=ROOT, check=True, capture_output=True, timeout=120
    )
    (run,) = (tmp_path / "runs").iterdir()
    db = sqlite3.connect(run / "record.sqlite")
    db.execute("PRAGMA user_version = 0")
    db.commit()
    db.close()
    assert "was recorded in format 0" in sweep(tmp_path, *command[:2], command[3])


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    assert "paths.runs: " in sweep(tmp_path, "backend=fake")


def test_no_bubblewrap_is_refused_with_the_fix(tmp_path: Path) -> None:
    line = sweep(tmp_path, "backend=fake", environment={**os.environ, "PATH": str(tmp_path)})
    assert "bubblewrap" in line
    assert "apt-get install bubblewrap" in line
