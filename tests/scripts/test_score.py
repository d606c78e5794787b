import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RIGHT = {"task_id": "Starter/0", "outcome": {"code": "    return sum(n for n in numbers if n % 2 == 0)\n"}}
WRONG = {"task_id": "Starter/0", "outcome": {"code": "def sum_of_evens(numbers):\n    return 0\n"}}
OTHER = {"task_id": "Starter/5", "outcome": {"code": "    return [items]\n"}}


def score(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/score.py", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )


def write(path: Path, *lines: Any) -> str:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return f"outcomes={path}"


def test_outcomes_are_scored_in_their_order_and_may_share_a_task(tmp_path: Path) -> None:
    outcomes = write(tmp_path / "outcomes.jsonl", OTHER, RIGHT, WRONG, RIGHT)
    done = score("env=starter", outcomes, f"out={tmp_path}/scores.jsonl", "observations=true")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("scores.jsonl: 4 outcomes, 2 correct\n")
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [(line["task_id"], line["score"], line["correct"]) for line in lines] == [
        ("Starter/5", 0.0, False),
        ("Starter/0", 1.0, True),
        ("Starter/0", 0.0, False),
        ("Starter/0", 1.0, True),
    ]
    assert lines[0]["detail"]["error"] == "got [[1, 2, 3, 4, 5]]"
    assert [line["observations"] for line in lines] == [[], [], [], []]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (
            [RIGHT, {**RIGHT, "task_id": "Startr/0"}],
            "o.jsonl:2: there is no task 'Startr/0'; did you mean Starter/0?",
        ),
        ([RIGHT, "", "{"], "o.jsonl:3: not valid JSON (Expecting property name"),
        ([{"outcome": {}}], "o.jsonl:1: field 'task_id' is missing"),
        ([{"task_id": "Starter/0", "outcome": "x"}], "o.jsonl:1: field 'outcome' must be an object, got 'x'"),
        (
            [RIGHT, {**RIGHT, "outcome": {"answer": "x"}}],
            'o.jsonl:2: Starter/0: an outcome must be {"code": TEXT}, got',
        ),
    ],
)
def test_a_bad_line_is_one_line_of_complaint(tmp_path: Path, lines: list[Any], complaint: str) -> None:
    done = score(write(tmp_path / "o.jsonl", *lines), f"out={tmp_path}/scores.jsonl")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert complaint in done.stderr
    assert not (tmp_path / "scores.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["out=x.jsonl"], "error: outcomes: must be given"),
        (["outcomes=none.jsonl", "out=x.jsonl"], "error: none.jsonl: no such file"),
        (
            ["outcomes=none.jsonl", "out=nowhere/x.jsonl"],
            "error: out: must lie in a folder that exists, got 'nowhere/x",
        ),
        (
            ["outcomes=none.jsonl", "out=x.jsonl", "env.data=none.jsonl", "env=humaneval"],
            "error: none.jsonl: no such",
        ),
        (["outcomes=none.jsonl", "out=x.jsonl", "env.sandbox.kidn=unsafe"], "did you mean kind?"),
    ],
)
def test_a_bad_option_is_one_line_of_complaint(options: list[str], complaint: str) -> None:
    done = score(*options)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert complaint in done.stderr
