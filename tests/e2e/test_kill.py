"""A sweep that is killed at any moment goes on as if nothing had happened."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.store import recorded_calls

ROOT = Path(__file__).parents[2]
KILLS = 20


def start(runs: Path, script: Path) -> subprocess.Popen[str]:
    command = [
        *(sys.executable, "scripts/sweep.py", "backend=fake", f"backend.script={script}", "env=starter"),
        *(f"paths.runs={runs}", "display.mode=off", "limits.max_episodes=5"),
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(runs: Path, script: Path) -> str:
    process = start(runs, script)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output


def record(runs: Path) -> dict[str, Any]:
    """Everything that does not depend on the clock."""
    (folder,) = runs.iterdir()
    db = sqlite3.connect(folder / "record.sqlite")
    queries = {
        "episodes": "SELECT task, position, status, error FROM episodes ORDER BY task",
        "trials": "SELECT task, number, ending, outcome, passed, feedback, correct, note FROM trials"
        " ORDER BY task, number",
        "steps": "SELECT * FROM steps ORDER BY 1, 2, 3",
        "seeds": "SELECT task, trial, role, step, sample, seed FROM calls ORDER BY 1, 2, 3, 4, 5",
        "check": "PRAGMA integrity_check",
    }
    found = {name: db.execute(query).fetchall() for name, query in queries.items()}
    db.close()
    calls = [(tag, prompt, answer.text) for tag, prompt, answer in recorded_calls(folder)]
    return {**found, "calls": sorted(calls, key=lambda call: repr(call[0]))}


def trials_on_disk(runs: Path) -> int:
    for folder in runs.glob("*/record.sqlite"):
        db = sqlite3.connect(f"{folder.as_uri()}?mode=ro", uri=True)
        try:
            return int(db.execute("SELECT count(*) FROM trials").fetchone()[0])
        except sqlite3.OperationalError:  # killed before the tables were made
            return 0
        finally:
            db.close()
    return 0


SUM = "```python\ndef sum_of_evens(numbers):\n    return sum(n for n in numbers if n % 2 == 0)\n```"
REVERSE = "```python\ndef reverse_words(sentence):\n    return ' '.join(reversed(sentence.split()))\n```"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """One task passes its own tests at once, one in its second trial, the others never."""
    replies = [
        {"role": "actor", "text": "```python\ndef unrelated():\n    return 1\n```"},
        {"role": "reflector", "text": "The function had the wrong name."},
        {"role": "actor", "task": "Starter/0", "text": SUM},
        {"role": "test_writer", "task": "Starter/0", "text": "assert sum_of_evens([1, 2]) == 2"},
        {"role": "actor", "task": "Starter/1", "trial": 2, "text": REVERSE},
        {"role": "test_writer", "task": "Starter/1", "text": "assert reverse_words('a b') == 'b a'"},
    ]
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return path


def test_killed_at_twenty_random_moments(tmp_path: Path, script: Path) -> None:
    finish(tmp_path / "whole", script)
    expected = record(tmp_path / "whole")
    assert Counter(status for _, _, status, _ in expected["episodes"]) == {"passed": 2, "failed": 18}
    assert len(expected["trials"]) == 1 + 2 + 18 * 3

    chance = random.Random(11)
    runs = tmp_path / "killed"
    kills_while_playing = 0
    for _ in range(KILLS):
        before = trials_on_disk(runs)
        process = start(runs, script)
        # Wait for a random number of further trials, so that kills fall all over the sweep.
        wanted, deadline = before + chance.randint(0, 3), time.monotonic() + chance.uniform(1, 8)
        while process.poll() is None and trials_on_disk(runs) < wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills_while_playing += 1
        process.communicate(timeout=60)
        assert trials_on_disk(runs) >= before
    assert kills_while_playing >= KILLS // 2

    finish(runs, script)
    assert record(runs) == expected
    assert "is finished, there is nothing to do" in finish(runs, script)
