"""The contract of an environment: a set of tasks, a fresh world for each trial, and the ground truth.

An environment knows no model and no prompt. Gold answers and hidden tests stay inside it: they are
used by `Environment.score` alone and appear in no `Task` and in no `Observation`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

Outcome = Mapping[str, Any]
"""What a trial left behind, as a JSON object: {"code"}, {"answer"} or {"actions"}. All that a scorer sees."""


class EnvironmentFault(Exception):
    """An environment cannot be used as configured. The message is one line: what is wrong, and the fix."""


class DataError(EnvironmentFault):
    """A data file is missing or malformed. The message names the file, and the line where there is one."""


class SandboxUnavailable(EnvironmentFault):
    """Untrusted code cannot be isolated here, so none is run."""


@dataclass(frozen=True, slots=True)
class Task:
    """One problem, with everything that a prompt may show of it.

    Attributes:
        id: The data set's own id, unique in the environment.
        text: The problem statement.
        kind: Group within the data set (task type, level), for few-shot choice and reports.
        public: Further facts that a prompt may show, such as the entry point or the language.
    """

    id: str
    text: str
    kind: str = ""
    public: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the world answers to an action.

    Attributes:
        text: What the agent sees.
        done: The world accepts no further action.
        valid: False when the action was not understood or not allowed.
        info: Facts for actors and reports, such as the admissible actions.
    """

    text: str
    done: bool = False
    valid: bool = True
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Score:
    """Ground truth about one outcome. Reported, never shown to a model.

    Attributes:
        value: The benchmark's own measure, from 0 to 1.
        correct: Whether the benchmark counts the task as solved.
        detail: What the judgement rests on, for the record.
    """

    value: float
    correct: bool
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestResult:
    """One of the agent's own tests, run against its code.

    Attributes:
        test: The test's source.
        passed: Whether it held.
        detail: For a failure, what came out instead: a value, an exception or a timeout.
    """

    __test__: ClassVar[bool] = False  # not a pytest class

    test: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where the tasks came from, for the manifest.

    Attributes:
        name: Hub id or file name.
        revision: Hub revision; empty for a file.
        sha256: Checksum of the records as read, so that the same data has one name.
        records: Number of tasks.
        licence: SPDX name where known.
    """

    name: str
    revision: str
    sha256: str
    records: int
    licence: str = ""


class Session(Protocol):
    """One fresh world, for one trial of one task."""

    async def step(self, action: str) -> Observation:
        """Apply what the model wrote. Text that is no action gives an invalid observation, never an error."""
        ...

    def outcome(self) -> Outcome:
        """What the trial has left behind so far."""
        ...


@runtime_checkable
class ProgramSession(Session, Protocol):
    """A session whose outcome is a program, against which the agent's own tests can be run."""

    def parse_tests(self, reply: str) -> tuple[str, ...]:
        """The valid tests in a model's reply, without duplicates, in order of appearance."""
        ...

    async def run_tests(self, tests: Sequence[str]) -> tuple[TestResult, ...]:
        """Run each test on its own against the program of the last step, isolated from the host."""
        ...


@runtime_checkable
class OutcomeChecker(Protocol):
    """An environment that can tell an outcome of the wrong form without judging it."""

    def check_outcome(self, task: Task, outcome: Outcome) -> None:
        """Raise DataError when the outcome has the wrong form, as `Environment.score` would."""
        ...


class Environment(Protocol):
    """A benchmark. Entering it (`async with`) starts its workers and refuses what cannot work here."""

    @property
    def name(self) -> str:
        """Which prompts of a pack belong to this environment, such as "programming"."""
        ...

    def tasks(self) -> Sequence[Task]:
        """All tasks, in a stable order. Raises DataError."""
        ...

    def source(self) -> DataSource:
        """Where the tasks came from. Raises DataError."""
        ...

    def open(self, task: Task) -> AbstractAsyncContextManager[Session]:
        """A fresh world for one trial."""
        ...

    async def score(self, task: Task, outcome: Outcome) -> Score:
        """Judge an outcome by the ground truth. Raises DataError when the outcome has the wrong form."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
