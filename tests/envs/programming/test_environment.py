import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from envs.base import DataError, Environment, SandboxUnavailable, TestResult
from envs.programming import ProgrammingEnv
from envs.sandbox import Sandbox

ROW = {
    "task_id": "T/0",
    "prompt": "import math\ndef double(x):\n    return 2 * x\n\ndef area(r):\n    '''Area of a circle.'''\n",
    "entry_point": "area",
    "test": "def check(candidate):\n    assert candidate(double(1)) == 4 * math.pi\n",
    "canonical_solution": "    return math.pi * r ** 2\n",
}


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[ProgrammingEnv]:
    async with ProgrammingEnv(data=write(tmp_path / "data.jsonl", ROW)) as env:
        yield env


def test_it_fulfils_the_contract() -> None:
    env: Environment = ProgrammingEnv()
    assert env.name == "programming"


async def test_tasks_show_the_prompt_and_nothing_hidden(env: ProgrammingEnv) -> None:
    (task,) = env.tasks()
    assert (task.id, task.text) == ("T/0", ROW["prompt"])
    assert task.public == {"entry_point": "area", "language": "python"}
    assert "check" not in repr(task)
    assert env.source().records == 1


async def test_a_session_takes_a_reply_and_runs_the_agents_tests(env: ProgrammingEnv) -> None:
    async with env.open(env.tasks()[0]) as session:
        observation = await session.step(
            "Here:\n```python\ndef area(r):\n    return math.pi * double(r)\n```"
        )
        assert (observation.done, observation.valid, observation.text) == (True, True, "The code compiles.")
        code = "def area(r):\n    return math.pi * double(r)\n"
        assert observation.info == session.outcome() == {"code": code}
        tests = session.parse_tests("assert area(0) == 0\nassert area(1) == math.pi\nassert area('x') == 1")
        assert await session.run_tests(tests) == (
            TestResult("assert area(0) == 0", True),
            TestResult("import math\nassert area(1) == math.pi", False, "got 6.283185307179586"),
            TestResult(
                "assert area('x') == 1",
                False,
                "TypeError: can't multiply sequence by non-int of type 'float'",
            ),
        )


@pytest.mark.parametrize("reply", ["no code", "```python\ndef area(r) return 1\n```"])
async def test_a_reply_without_a_program_is_invalid_and_fails_every_test(
    env: ProgrammingEnv, reply: str
) -> None:
    async with env.open(env.tasks()[0]) as session:
        observation = await session.step(reply)
        assert (observation.done, observation.valid) == (True, False)
        (result,) = await session.run_tests(["assert area(0) == 0"])
        assert result == TestResult("assert area(0) == 0", False, observation.text)


async def test_every_session_is_fresh(env: ProgrammingEnv) -> None:
    task = env.tasks()[0]
    async with env.open(task) as first:
        await first.step("def area(r): return 1")
    async with env.open(task) as second:
        assert second.outcome() == {"code": ""}


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        (ROW["canonical_solution"], "passed"),
        ("def area(r):\n    return math.pi * r ** 2\n", "passed"),
        (
            "from __future__ import annotations\ndef area(r: float) -> float:\n    return math.pi * r ** 2\n",
            "passed",
        ),
        (ROW["prompt"] + ROW["canonical_solution"], "passed"),
        ("def double(x): return 0\ndef area(r):\n    return 0 if r == 0 else 1\n", "failed"),
        ("def area(r):\n    return None\n", "failed"),
        ("def area(r) return 1", "error"),
        ("", "failed"),
    ],
)
async def test_hidden_tests_judge_a_function_or_a_body(env: ProgrammingEnv, code: str, ended: str) -> None:
    score = await env.score(env.tasks()[0], {"code": code})
    assert score.detail["ended"] == ended
    assert (score.value, score.correct) == ((1.0, True) if ended == "passed" else (0.0, False))
    assert score.detail["sandbox"] == "bwrap"
    assert score.detail["wall_s"] > 0


@pytest.mark.parametrize("outcome", [{}, {"answer": "x"}, {"code": 3}, {"code": "x", "more": 1}])
async def test_an_outcome_of_the_wrong_form_is_refused(env: ProgrammingEnv, outcome: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r'^T/0: an outcome must be {"code": TEXT}, got {'):
        await env.score(env.tasks()[0], outcome)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([ROW, ROW], "data.jsonl:2: task_id 'T/0' occurs twice, first at "),
        ([{**ROW, "prompt": None}], "data.jsonl:1: field 'prompt' must be a string, got NoneType"),
        ([{k: v for k, v in ROW.items() if k != "test"}], "data.jsonl:1: field 'test' is missing"),
        (
            [{**ROW, "entry_point": "volume"}],
            "data.jsonl:1: field 'prompt' must define 'volume', as valid Python",
        ),
        *(
            ([ROW, {**ROW, "task_id": "T/1", "test": test}], "data.jsonl:2: field 'test' must define check")
            for test in (
                "",
                "def check(c:\n",
                "def test(c): pass",
                "def check(): pass",
                "check = 1",
                "x = '\0'",
            )
        ),
        ([{**ROW, "prompt": "\ud800"}], r"data.jsonl:1: holds '\\ud800', half of a surrogate pair"),
    ],
)
def test_bad_data_is_named_with_file_and_line(
    tmp_path: Path, rows: list[dict[str, Any]], complaint: str
) -> None:
    with pytest.raises(DataError, match=complaint):
        ProgrammingEnv(data=write(tmp_path / "data.jsonl", *rows)).tasks()


def test_a_missing_file_is_named_with_its_option(tmp_path: Path) -> None:
    complaint = rf"^env.data: {tmp_path}/none.jsonl does not exist; give a JSONL file"
    with pytest.raises(DataError, match=complaint):
        ProgrammingEnv(data=f"{tmp_path}/none.jsonl").tasks()


def test_a_long_hidden_test_is_no_bad_one(tmp_path: Path) -> None:
    row = {**ROW, "test": ROW["test"] + f"    assert '{'x' * 100_000}'\n"}
    assert len(ProgrammingEnv(data=write(tmp_path / "data.jsonl", row)).tasks()) == 1


async def test_a_hidden_test_that_calls_nothing_is_not_passed(tmp_path: Path) -> None:
    row = {**ROW, "test": "def check(candidate):\n    assert callable(candidate)\n"}
    async with ProgrammingEnv(data=write(tmp_path / "data.jsonl", row)) as env:
        score = await env.score(env.tasks()[0], {"code": ROW["canonical_solution"]})
    assert (score.correct, score.detail["error"]) == (False, "the test never called the function")


async def test_runs_of_earlier_tasks_come_first(tmp_path: Path) -> None:
    rows = [{**ROW, "task_id": f"T/{number}"} for number in range(4)]
    order: list[str] = []

    async def score(env: ProgrammingEnv, number: int) -> None:
        await env.score(env.tasks()[number], {"code": ROW["canonical_solution"]})
        order.append(f"T/{number}")

    async with ProgrammingEnv(data=write(tmp_path / "data.jsonl", *rows), sandbox=Sandbox(slots=1)) as env:
        await asyncio.gather(*(score(env, number) for number in (3, 2, 0, 1)))
    assert order == ["T/3", "T/0", "T/1", "T/2"]  # the first to come finds the slot free


async def test_without_a_sandbox_it_says_what_can_be_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    complaint = (
        r"is not installed: apt-get install bubblewrap; or env.sandbox.kind=unsafe to run generated code"
    )
    with pytest.raises(SandboxUnavailable, match=complaint):
        await ProgrammingEnv(data="starter").__aenter__()
    async with ProgrammingEnv(data="starter", sandbox=Sandbox(kind="unsafe")) as env:
        score = await env.score(env.tasks()[0], {"code": ""})
    assert score.detail["sandbox"] == "unsafe"
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert warning.getMessage().startswith("env.sandbox.kind=unsafe: generated code runs unprotected")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": ""}, "data: must be a file or folder where dataset is empty, got ''"),
        ({"test_seconds": 0}, "test_seconds: must be from 1 to 3600, got 0"),
        ({"test_seconds": math.nan}, "test_seconds: must be from 1 to 3600, got nan"),
        ({"score_seconds": -1}, "score_seconds: must be from 1 to 3600, got -1"),
        ({"score_seconds": math.inf}, "score_seconds: must be from 1 to 3600, got inf"),
        ({"score_seconds": 3601}, "score_seconds: must be from 1 to 3600, got 3601"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProgrammingEnv(**options)
