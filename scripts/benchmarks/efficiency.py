"""How busy a sweep keeps the model.

One model plays a sweep; then it gets the very same requests all at once with nothing to wait for (open
loop), and the first episodes' requests one by one (how a plain loop runs). Each begins with an empty
prefix cache. The efficiency is E = T_open / T_sweep.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from engine.config import SweepConfig
from engine.inference.base import LanguageModel, ModelStats
from engine.loop import Agent
from engine.profiling.tally import Tally
from engine.records import Completion, Request
from engine.run import make_agent, select
from engine.store import Store
from engine.sweep import sweep
from envs.base import Environment, Task


@dataclass
class Capture:
    """Passes requests on to the model and keeps them with their answers."""

    model: LanguageModel
    calls: list[tuple[Request, Completion]] = field(default_factory=list)

    async def complete(self, request: Request) -> Completion:
        """Pass one request on."""
        completion = await self.model.complete(request)
        self.calls.append((request, completion))
        return completion

    def stats(self) -> ModelStats:
        """The model's state now."""
        return self.model.stats()

    async def forget(self) -> None:
        """Empty the model's prefix cache."""
        await self.model.forget()


@dataclass(frozen=True, slots=True)
class Timing:
    """One way of putting requests to the model."""

    name: str
    wall_s: float
    answers: Sequence[Completion]

    @property
    def tokens(self) -> int:
        """Tokens generated."""
        return sum(answer.generated_tokens for answer in self.answers)

    @property
    def tokens_per_s(self) -> float:
        """Tokens generated a second."""
        return self.tokens / self.wall_s

    @property
    def cache_hit_rate(self) -> float:
        """Share of the prompt tokens that the prefix cache had."""
        prompts = sum(answer.prompt_tokens for answer in self.answers)
        return sum(answer.cached_tokens for answer in self.answers) / prompts


async def measure(config: SweepConfig, sequential_calls: int | None) -> RenderableType:
    """Play the sweep, the open loop and the sequential loop on one loaded model."""
    tasks = select(config.env.tasks(), config.tasks)
    prompts = config.prompts.for_environment(config.env.name)
    agent = make_agent(config, prompts, config.backend.tokenizer(config.model))
    async with config.env as environment, config.backend.load(config.model, config.seed) as model:
        model = Capture(model)
        await _play(agent, environment, tasks[:1], model, 1)  # the first calls warm everything up
        model.calls.clear()
        played = await _timed(
            "our sweep",
            model,
            lambda: _play(agent, environment, tasks, model, config.limits.max_episodes),
        )
        calls = [_as_long_as_before(*call) for call in model.calls]
        opened = await _timed("open loop", model, lambda: asyncio.gather(*map(model.complete, calls)))
        calls.sort(key=lambda request: (request.priority, request.tag.trial))
        alone = await _timed("sequential", model, lambda: _one_by_one(model, calls[:sequential_calls]))
    return _report(len(tasks), config.limits.max_episodes, played, opened, alone)


async def _play(
    agent: Agent, environment: Environment, tasks: Sequence[Task], model: LanguageModel, max_episodes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder), tasks)
        store.begin({})
        tally = Tally(model, store.progress(), agent.strategy.trials)
        await sweep(agent, environment, tasks, store, tally, max_episodes)
        store.close()


async def _one_by_one(model: LanguageModel, requests: Sequence[Request]) -> None:
    for request in requests:
        await model.complete(request)


async def _timed(name: str, model: Capture, work: Callable[[], Awaitable[Any]]) -> Timing:
    await model.forget()
    before, start = len(model.calls), time.perf_counter()
    await work()
    timing = Timing(name, time.perf_counter() - start, [answer for _, answer in model.calls[before:]])
    print(f"{name}: {len(timing.answers):,} calls in {timing.wall_s:,.1f} s", flush=True)
    return timing


def _as_long_as_before(request: Request, answer: Completion) -> Request:
    """The same request, allowed no more tokens than it took, so that all loops do the same work."""
    return replace(request, sampling=replace(request.sampling, max_tokens=max(answer.generated_tokens, 1)))


def _report(tasks: int, max_episodes: int, played: Timing, opened: Timing, alone: Timing) -> RenderableType:
    table = Table(
        title=f"One model, {tasks} tasks, at most {max_episodes} episodes in flight",
        title_justify="left",
        box=None,
    )
    table.add_column("")
    for name in ("calls", "wall", "generated", "tokens/s", "cache hits", "against sequential"):
        table.add_column(name, justify="right")
    for timing in (alone, played, opened):
        table.add_row(
            timing.name,
            f"{len(timing.answers):,}",
            f"{timing.wall_s:,.1f} s",
            f"{timing.tokens:,}",
            f"{timing.tokens_per_s:,.1f}",
            f"{timing.cache_hit_rate:.1%}",
            f"{timing.tokens_per_s / alone.tokens_per_s:.2f}x",
        )
    efficiency = opened.wall_s / played.wall_s
    return Group(table, f"efficiency E = T_open / T_sweep = {efficiency:.2f}")
