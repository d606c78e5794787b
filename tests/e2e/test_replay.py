"""A recorded run can be played again without what it was recorded with."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def sweep(runs: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/sweep.py", f"paths.runs={runs}", "display.mode=off", *overrides]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def trials(run: Path) -> list[Any]:
    db = sqlite3.connect(run / "record.sqlite")
    found = db.execute(
        "SELECT task, number, outcome, passed, correct, note FROM trials ORDER BY 1, 2"
    ).fetchall()
    db.close()
    return found


def test_a_replayed_run_gives_the_same_trials(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    reply = {"role": "actor", "task": "Starter/0", "trial": 2, "text": "def sum_of_evens(numbers): return 6"}
    script.write_text(json.dumps(reply) + "\n")
    assert sweep(tmp_path / "a", "backend=fake", f"backend.script={script}", "tasks.first=3").returncode == 0
    (recorded,) = (tmp_path / "a").iterdir()
    script.unlink()

    replay = ("backend=replay", f"backend.run={recorded}", "tasks.first=3")
    done = sweep(tmp_path / "b", *replay)
    assert done.returncode == 0, done.stderr
    (replayed,) = (tmp_path / "b").iterdir()
    assert trials(replayed) == trials(recorded)
    assert "replay-of-" in replayed.name


def test_a_replay_that_asks_for_more_than_was_recorded_says_which_call(tmp_path: Path) -> None:
    assert sweep(tmp_path / "a", "backend=fake", "tasks.first=1").returncode == 0
    (recorded,) = (tmp_path / "a").iterdir()
    done = sweep(tmp_path / "b", "backend=replay", f"backend.run={recorded}", "tasks.first=2")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "error: task Starter/1, trial 1, actor" in done.stderr
    assert "the recorded run has no such call" in done.stderr
