"""Programming problems: the model writes a function, hidden tests judge it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from envs import sandbox as jail
from envs.base import (
    DataError,
    DataSource,
    EnvironmentFault,
    Observation,
    Outcome,
    SandboxUnavailable,
    Score,
    Task,
    TestResult,
)
from envs.data import Records, load_files, load_hub, unique
from envs.programming.extraction import Extraction, extract
from envs.programming.problem import Problem
from envs.programming.selftests import parse_tests
from envs.sandbox import Sandbox

_STARTER = "starter"
_MAX_SECONDS = 3600

_log = logging.getLogger(__name__)


@dataclass
class ProgrammingEnv:
    """A set of programming problems in HumanEval's form.

    Attributes:
        data: A JSONL file, gzipped or not, a folder of them, or "starter" for the set that comes with the
            project. Empty: the data set `dataset` from the hub.
        dataset: Hub id, used where `data` is empty.
        revision: Commit of the hub's data set.
        split: Split of the hub's data set.
        test_seconds: CPU seconds for each of the agent's own tests, from 1 to 3600.
        score_seconds: CPU seconds for the hidden tests of one problem, from 1 to 3600.
        sandbox: Where programs run.
    """

    data: str = ""
    dataset: str = "openai/openai_humaneval"
    revision: str = "7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544"
    split: str = "test"
    test_seconds: float = 3.0
    score_seconds: float = 10.0
    sandbox: Sandbox = field(default_factory=Sandbox)

    def __post_init__(self) -> None:
        if not self.data and not self.dataset:
            raise ValueError("data: must be a file or folder where dataset is empty, got ''")
        for name in ("test_seconds", "score_seconds"):
            if not 1 <= (value := getattr(self, name)) <= _MAX_SECONDS:
                raise ValueError(f"{name}: must be from 1 to {_MAX_SECONDS}, got {value}")

    @property
    def name(self) -> str:
        """Which prompts of a pack belong to this environment."""
        return "programming"

    def tasks(self) -> Sequence[Task]:
        """All problems, in the data's order. Raises DataError."""
        return [
            Task(
                problem.id, problem.prompt, public={"entry_point": problem.entry_point, "language": "python"}
            )
            for problem in self._problems.values()
        ]

    def source(self) -> DataSource:
        """Where the problems came from. Raises DataError."""
        return self._records.source

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator["ProgrammingSession"]:
        """A blank sheet for one trial."""
        yield ProgrammingSession(self, self._problems[task.id])

    def check_outcome(self, task: Task, outcome: Outcome) -> None:
        """Raise DataError when the outcome is not {"code": TEXT}."""
        if list(outcome) != ["code"] or not isinstance(outcome["code"], str):
            raise DataError(f'{task.id}: an outcome must be {{"code": TEXT}}, got {str(dict(outcome))[:80]}')

    async def score(self, task: Task, outcome: Outcome) -> Score:
        """Run the hidden tests once. Raises DataError when the outcome is not {"code": TEXT}."""
        self.check_outcome(task, outcome)
        problem = self._problems[task.id]
        report = await self.run(problem, outcome["code"], [problem.hidden_test()], self.score_seconds)
        result = report.results[0]
        detail = {
            "ended": result.ended,
            "error": result.detail,
            "cpu_s": round(report.cpu_s, 3),
            "wall_s": round(report.wall_s, 3),
            "sandbox": report.sandbox,
        }
        return Score(float(result.passed), result.passed, detail)

    async def run(self, problem: Problem, code: str, tests: Sequence[str], seconds: float) -> jail.Report:
        """Run a solution against tests in the sandbox, those of earlier problems first.

        Raises:
            EnvironmentFault: No jail starts.
        """
        try:
            return await self.sandbox.run(
                problem.program(code),
                tests,
                names=[problem.entry_point],
                seconds=seconds,
                priority=self._positions[problem.id],
            )
        except jail.SandboxFault as fault:
            raise EnvironmentFault(str(fault)) from None

    async def __aenter__(self) -> Self:
        """Read the problems and prove the sandbox. Raises DataError and SandboxUnavailable."""
        await asyncio.to_thread(lambda: self._problems)
        if self.sandbox.kind == "unsafe":
            _log.warning("env.sandbox.kind=unsafe: generated code runs unprotected, with your rights")
        try:
            await self.sandbox.__aenter__()
        except jail.SandboxUnavailable as error:
            raise SandboxUnavailable(
                f"{error}; or env.sandbox.kind=unsafe to run generated code unprotected"
            ) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.sandbox.__aexit__(kind, error, trace)

    @cached_property
    def _records(self) -> Records:
        if self.data == _STARTER:
            return load_files(Path(__file__).with_name("starter.jsonl"), "env.data")
        if self.data:
            return load_files(Path(self.data), "env.data")
        return load_hub(self.dataset, self.revision, self.split)

    @cached_property
    def _problems(self) -> Mapping[str, Problem]:
        return {
            record.text("task_id"): Problem.from_record(record) for record in unique(self._records, "task_id")
        }

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {name: position for position, name in enumerate(self._problems)}


class ProgrammingSession:
    """One trial of one problem: the model's whole reply is its only action."""

    def __init__(self, env: ProgrammingEnv, problem: Problem) -> None:
        self._env = env
        self._problem = problem
        self._found = Extraction("", "There is no program yet.")

    async def step(self, action: str) -> Observation:
        """Take the program out of the reply. It is not run."""
        self._found = await asyncio.to_thread(extract, action, self._problem)
        text = self._found.problem or "The code compiles."
        return Observation(text, done=True, valid=not self._found.problem, info={"code": self._found.code})

    def outcome(self) -> Outcome:
        """The program of the last step."""
        return {"code": self._found.code}

    def parse_tests(self, reply: str) -> tuple[str, ...]:
        """The usable tests in a model's reply, without duplicates, in order of appearance."""
        return parse_tests(reply, self._problem.entry_point)

    async def run_tests(self, tests: Sequence[str]) -> tuple[TestResult, ...]:
        """Run each test on its own against the program of the last step."""
        if self._found.problem:
            return tuple(TestResult(test, False, self._found.problem) for test in tests)
        report = await self._env.run(self._problem, self._found.code, tests, self._env.test_seconds)
        return tuple(
            TestResult(test, result.passed, result.detail)
            for test, result in zip(tests, report.results, strict=True)
        )
