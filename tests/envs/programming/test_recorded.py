"""Real problems, solutions and replies are judged as the record says."""

import asyncio
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.base import Score
from envs.data import Record
from envs.programming import ProgrammingEnv
from envs.programming.extraction import extract
from envs.programming.problem import Problem
from envs.sandbox import Sandbox


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file]


async def scores(data: str, answers: Sequence[tuple[str, str]]) -> list[Score]:
    async with ProgrammingEnv(data=data, sandbox=Sandbox(patience=6)) as env:
        tasks = {task.id: task for task in env.tasks()}
        return await asyncio.gather(*(env.score(tasks[name], {"code": code}) for name, code in answers))


async def test_starter_solutions_are_right_and_stubs_are_wrong() -> None:
    starter = rows(Path(__file__).parents[3] / "envs" / "programming" / "starter.jsonl")
    assert len(starter) >= 16
    right = await scores("starter", [(row["task_id"], row["canonical_solution"]) for row in starter])
    assert [row["task_id"] for row, score in zip(starter, right, strict=True) if not score.correct] == []
    wrong = await scores("starter", [(row["task_id"], "    return None\n") for row in starter])
    assert [row["task_id"] for row, score in zip(starter, wrong, strict=True) if score.correct] == []


async def test_humaneval_solutions_are_right(data_folder: Path) -> None:
    path = data_folder / "humaneval" / "HumanEval.jsonl.gz"
    answers = [(row["task_id"], row["prompt"] + row["canonical_solution"]) for row in rows(path)]
    judged = await scores(str(path), answers)
    assert [name for (name, _), score in zip(answers, judged, strict=True) if not score.correct] == []
    assert len(judged) == 164


async def test_a_recorded_run_is_judged_the_same_again(data_folder: Path) -> None:
    recorded = rows(next((data_folder / "replay" / "programming").glob("simple_test_run.*.jsonl.gz")))
    answers = [(row["task_id"], row["solution"]) for row in recorded]
    judged = await scores(str(data_folder / "humaneval" / "HumanEval.jsonl.gz"), answers)
    assert [score.correct for score in judged] == [row["is_solved"] for row in recorded]


RIGHT_ALTHOUGH_RECORDED_AS_WRONG = {
    "code-0124": "the recording system read the first tag, which stands in the prose",
    "code-0408": "it read the last fenced block, which holds only example calls",
    "code-0412": "it read the last fenced block, which holds only example calls",
    "code-0424": "it read the last fenced block, which holds only example calls",
}


async def test_replies_with_a_known_verdict_get_it(data_folder: Path) -> None:
    humaneval = {row["task_id"]: row for row in rows(data_folder / "humaneval" / "HumanEval.jsonl.gz")}
    mbpp = rows(data_folder / "mbpp" / "mbpp.jsonl")
    replies = [
        row
        for row in rows(data_folder / "raw_outputs" / "code_replies.jsonl.gz")
        if row["truth"]["passed"] is not None
    ]
    cases = [(row, problem) for row in replies if (problem := problem_of(row, humaneval, mbpp))]
    assert len(cases) > 45
    async with Sandbox(patience=6) as sandbox:
        passed = await asyncio.gather(*(passes(sandbox, row["raw"], problem) for row, problem in cases))
    wrong = {
        row["id"] for (row, _), ours in zip(cases, passed, strict=True) if ours != row["truth"]["passed"]
    }
    assert wrong == RIGHT_ALTHOUGH_RECORDED_AS_WRONG.keys() & {row["id"] for row, _ in cases}


async def passes(sandbox: Sandbox, reply: str, problem: Problem) -> bool:
    program = problem.program(extract(reply, problem).code)
    tests = [problem.hidden_test()]
    report = await sandbox.run(program, tests, names=[problem.entry_point], seconds=5)
    return report.results[0].passed


def problem_of(
    reply: dict[str, Any], humaneval: dict[str, Any], mbpp: list[dict[str, Any]]
) -> Problem | None:
    """The problem that a reply answers: by its id, else the only one whose tests call the function."""
    if named := re.match(r"HumanEval/\d+", reply["task"]):
        return Problem.from_record(Record(humaneval[named[0]], named[0]))
    note = re.search(r"entry_point=(\w+)", reply["truth"]["note"])
    assert note
    number = re.match(r"(?:Mbpp/|MBPP/mbpp_)(\d+)", reply["task"])
    found = [
        row
        for row in mbpp
        if (
            row["task_id"] == int(number[1])
            if number
            else re.search(rf"\b{note[1]}\b", " ".join(row["test_list"]))
        )
    ]
    if len(found) != 1:
        return None
    checks = "\n".join(f"    {test}" for test in found[0]["test_list"])
    fields = {
        "task_id": reply["task"],
        "prompt": f'def {note[1]}(*args):\n    """{found[0]["text"]}"""\n',
        "entry_point": note[1],
        "test": f"{found[0]['test_setup_code']}\ndef check(_):\n{checks}\n",
    }
    return Problem.from_record(Record(fields, reply["id"]))
