import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from envs.base import DataError, Score
from envs.programming import ProgrammingEnv
from envs.sandbox import Sandbox, SandboxFault
from scripts import hydra_app
from scripts.score import job, load, read_entries

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
    assert [line["observations"] for line in lines] == [["The code compiles."]] * 4
    assert [path.name for path in tmp_path.iterdir() if "scores" in path.name] == ["scores.jsonl"]


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
        (
            ["outcomes=none.jsonl", "out=x.jsonl"],
            "error: outcomes: none.jsonl does not exist; give a JSONL file",
        ),
        (
            ["outcomes=none.jsonl", "out=nowhere/x.jsonl"],
            "error: out: must lie in a folder that exists, got 'nowhere/x",
        ),
        (
            ["outcomes=none.jsonl", "out=x.jsonl", "env.data=none.jsonl", "env=humaneval"],
            "error: env.data: none.jsonl does not exist; give a JSONL file",
        ),
        (["outcomes=none.jsonl", "out="], "error: out: must be a file, got ''"),
        (["outcomes=", "out=x.jsonl"], "error: outcomes: must be a file, got ''"),
        (["outcomes=none.jsonl", "out=tests"], "error: out: must be a file, got 'tests'"),
        (["outcomes=none.jsonl", "out=/dev/null"], "error: out: must be a file, got '/dev/null'"),
        (["outcomes=none.jsonl", f"out={'x' * 300}"], "error: out: cannot be written ("),
        (
            ["outcomes=pyproject.toml", "out=tests/../pyproject.toml"],
            "error: out: must be another file than outcomes, got 'tests/../pyproject.toml'",
        ),
        (["outcomes=none.jsonl", "out=x.jsonl", "env.sandbox.kidn=unsafe"], "did you mean kind?"),
    ],
)
def test_a_bad_option_is_one_line_of_complaint(options: list[str], complaint: str) -> None:
    done = score(*options)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert complaint in done.stderr


def test_scoring_without_protection_is_said(tmp_path: Path) -> None:
    options = (write(tmp_path / "o.jsonl", RIGHT), f"out={tmp_path}/s.jsonl", "env.sandbox.kind=unsafe")
    done = score(*options)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/s.jsonl: 1 outcomes, 1 correct\n")
    assert done.stderr == "env.sandbox.kind=unsafe: generated code runs unprotected, with your rights\n"


def test_a_place_that_cannot_be_written_is_refused_before_scoring(tmp_path: Path) -> None:
    done = score(write(tmp_path / "o.jsonl", RIGHT), "out=/proc/x.jsonl", "env.sandbox.kind=unsafe")
    assert done.returncode == 2
    assert done.stderr.startswith("error: out: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def slow(tmp_path: Path) -> list[str]:
    """Options under which the second outcome of two takes as long as a test waits."""
    forever = {"task_id": "Starter/1", "outcome": {"code": "import time\ntime.sleep(999)\n"}}
    (tmp_path / "scores.jsonl").write_text("scores of earlier\n")
    return [
        *("env=starter", "env.score_seconds=3600", "env.sandbox.slots=2", f"out={tmp_path}/scores.jsonl"),
        write(tmp_path / "o.jsonl", RIGHT, forever),
    ]


def only_the_old_scores_are_there(folder: Path) -> bool:
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return (
        names == ["o.jsonl", "scores.jsonl"]
        and (folder / "scores.jsonl").read_text() == "scores of earlier\n"
    )


def test_ctrl_c_is_one_line_and_touches_nothing(tmp_path: Path, slow: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "scripts/score.py", *slow], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    while not list(tmp_path.glob("*.partial")):
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "stopped\n")
    assert only_the_old_scores_are_there(tmp_path)


def test_a_fault_on_the_way_is_one_line_and_touches_nothing(
    tmp_path: Path, slow: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*args: object, **kwargs: object) -> None:
        raise SandboxFault("a jail did not start")

    async def enter(sandbox: Sandbox) -> Sandbox:
        return sandbox

    monkeypatch.setattr(Sandbox, "run", run)
    monkeypatch.setattr(Sandbox, "__aenter__", enter)
    monkeypatch.setattr(sys, "argv", ["score.py", *slow])
    with pytest.raises(SystemExit) as stopped:
        hydra_app.main("score", load, job)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "error: a jail did not start\n"
    assert only_the_old_scores_are_there(tmp_path)


def test_every_outcome_is_checked_before_the_first_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def score(*args: object) -> Score:
        raise AssertionError("it was scored")

    monkeypatch.setattr(ProgrammingEnv, "score", score)
    write(tmp_path / "o.jsonl", RIGHT, {**RIGHT, "outcome": {"code": 1}})
    env = ProgrammingEnv(data="starter")
    with pytest.raises(DataError, match=r"o.jsonl:2: Starter/0: an outcome must be"):
        read_entries(tmp_path / "o.jsonl", env)


def test_what_cannot_be_stored_as_it_is_is_written_as_an_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def score(*args: object) -> Score:
        return Score(0.0, False, {"error": "é\ud800"})

    monkeypatch.setattr(ProgrammingEnv, "score", score)
    monkeypatch.setattr(
        sys, "argv", ["score.py", write(tmp_path / "o.jsonl", RIGHT), f"out={tmp_path}/s.jsonl"]
    )
    hydra_app.main("score", load, job)
    assert json.loads((tmp_path / "s.jsonl").read_text(encoding="utf-8"))["detail"] == {"error": "é\ud800"}
