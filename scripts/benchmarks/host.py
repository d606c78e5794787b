"""What a model call costs the host: CPU time of this process per call, and its peak memory.

The model and the world answer at once, so that only the engine's own work is left: rendering prompts,
scheduling, recording. Every role is asked in every trial.
"""

import asyncio
import contextlib
import multiprocessing
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from rich.table import Table

from engine.actors.code import CodeActor
from engine.attempt import Attempt
from engine.inference.base import ModelSpec
from engine.inference.fake import FakeBackend
from engine.loop import Agent, Strategy
from engine.memory import Memory
from engine.profiling.tally import Tally
from engine.prompts import PromptPack
from engine.records import Sampling, Verdict
from engine.reflectors.verbal import VerbalReflector
from engine.store import Store, read
from engine.sweep import sweep
from envs.base import DataSource, Observation, Outcome, Score, Session, Task


@dataclass(frozen=True, slots=True)
class HostCost:
    """Figures of one sweep against a model and a world that answer at once."""

    episodes: int
    calls: int
    cpu_us_per_call: float
    peak_bytes: int


@dataclass
class InstantEnv:
    """A world that answers at once, so that only the engine's own work is measured."""

    size: int
    name: ClassVar[str] = "programming"

    def tasks(self) -> Sequence[Task]:
        """As many tasks as asked for, each with a text of usual length."""
        text = "    # about as long as a problem of a benchmark\n" * 12
        return [
            Task(f"instant/{number}", f"def f{number}():\n{text}", public={"entry_point": f"f{number}"})
            for number in range(self.size)
        ]

    def source(self) -> DataSource:
        """No data."""
        return DataSource("instant", "", "", self.size)

    @contextlib.asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Session]:
        """A fresh world."""
        yield InstantSession()

    async def score(self, task: Task, outcome: Outcome) -> Score:
        """Nothing is ever solved."""
        return Score(0.0, False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class InstantSession:
    """Takes any action."""

    async def step(self, action: str) -> Observation:
        """Answer at once."""
        return Observation("", done=True)

    def outcome(self) -> Outcome:
        """Nothing."""
        return {"code": ""}


@dataclass(frozen=True)
class NeverPasses:
    """Fails every trial after asking for tests, so that every role is asked."""

    oracle: ClassVar[bool] = False
    templates: ClassVar[Mapping[str, Mapping[str, Any]]] = {"test_writer": {"max_tests": 6}}

    async def judge(self, attempt: Attempt) -> Verdict:
        """Fail."""
        await attempt.ask("test_writer", max_tests=6)
        return Verdict(False, 0.0, "assert f() == 1  # got None")


def host_cost(episodes: int) -> HostCost:
    """Play three trials of so many episodes, all in flight at once."""
    before = time.process_time()
    calls = asyncio.run(_play_instantly(episodes))
    spent = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return HostCost(episodes, calls, spent / calls * 1e6, peak)


async def _play_instantly(episodes: int) -> int:
    environment = InstantEnv(max(episodes, 20))
    sampling = {role: Sampling() for role in ("actor", "reflector", "evaluator", "test_writer")}
    agent = Agent(
        actor=CodeActor(),
        evaluator=NeverPasses(),
        reflector=VerbalReflector(),
        memory=Memory(),
        strategy=Strategy("reflexion", trials=3, reflect=True),
        prompts=PromptPack().for_environment("programming"),
        sampling=sampling,  # type: ignore[arg-type]  # the keys are roles
        count_tokens=lambda text: len(text.split()),
        seed=0,
    )
    async with FakeBackend().load(ModelSpec("fake"), seed=0) as model:
        with tempfile.TemporaryDirectory() as folder:
            store = Store.open(Path(folder), environment.tasks())
            store.begin({})
            tally = Tally(model, store.progress(), agent.strategy.trials)
            await sweep(agent, environment, environment.tasks(), store, tally, episodes)
            store.close()
            return len(read(Path(folder)).calls)


def measure(sizes: Sequence[int]) -> Table:
    """The figures for each number of episodes in flight, each in a process of its own."""
    table = Table(title="Host cost per model call", title_justify="left", box=None)
    for name in ("episodes in flight", "calls", "CPU per call", "peak memory"):
        table.add_column(name, justify="right")
    for episodes in sizes:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            cost = pool.submit(host_cost, episodes).result()
        table.add_row(
            f"{episodes:,}",
            f"{cost.calls:,}",
            f"{cost.cpu_us_per_call:,.0f} µs",
            f"{cost.peak_bytes / 2**20:,.0f} MiB",
        )
    return table
