import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"scripts/{script}.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_the_tables_of_a_run_can_be_printed_again(tmp_path: Path) -> None:
    played = run("sweep", "backend=fake", "tasks.first=2", f"paths.runs={tmp_path}", "display.mode=off")
    assert played.returncode == 0, played.stderr
    (folder,) = tmp_path.iterdir()
    printed = run("report", str(folder))
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.strip() == played.stdout.partition("\n")[2].strip()
    for heading in ("Outcomes per trial", "Cost per trial", "Cost per role", "TP", "p95", "env"):
        assert heading in printed.stdout


def test_what_is_no_run_is_one_line(tmp_path: Path) -> None:
    done = run("report", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path}: is no run directory (it has no record.sqlite)\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    played = run("sweep", "backend=fake", "tasks.first=1", f"paths.runs={runs}", "display.mode=off")
    assert played.returncode == 0, played.stderr
    return next(runs.iterdir())


def garble(folder: Path) -> None:
    data = bytearray((folder / "record.sqlite").read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    (folder / "record.sqlite").write_bytes(data)


def drop(folder: Path) -> None:
    db = sqlite3.connect(folder / "record.sqlite")
    db.execute("DROP TABLE calls")
    db.commit()
    db.close()


def manifest(data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "manifest.json").write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        garble,
        drop,
        manifest(b"{}"),
        manifest(b"[]"),
        manifest(b"\xff\x00"),
        manifest(b""),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "record.sqlite").write_text("no database"),
    ],
)
def test_a_damaged_run_is_one_line(recorded: Path, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(recorded, folder)
    damage(folder)
    done = run("report", str(folder))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(f"error: {folder}")


def test_no_run_at_all_is_one_line() -> None:
    done = run("report")
    assert (done.returncode, done.stderr) == (
        2,
        "error: the following arguments are required: run; see --help\n",
    )
