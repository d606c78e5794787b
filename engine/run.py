"""One run from its configuration to its record: check everything, load the model, play."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import manifest
from engine.actors.base import Actor
from engine.config import Selection, SweepConfig, did_you_mean
from engine.errors import ConfigError, RecordError
from engine.evaluators.base import Evaluator
from engine.inference.base import LanguageModel, Tokenizer
from engine.loop import Agent
from engine.profiling.tally import Tally
from engine.prompts import Prompts
from engine.records import Note, PastTrial, Step, Trajectory, Verdict
from engine.reflectors.base import Reflector
from engine.store import Store
from engine.sweep import sweep
from envs.base import Task

_LEAST_ROOM = 16
"""Fewest tokens that an answer must have room for beside the constant part of a prompt."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a run.

    Attributes:
        folder: The run directory.
        played: False when there was nothing left to do.
        errors: Episodes that ended in an error.
    """

    folder: Path
    played: bool
    errors: int = 0


async def run(config: SweepConfig, resolved: Mapping[str, Any]) -> Finished:
    """Play a sweep, or what is left of it. Everything that can be refused is refused before a model loads.

    Args:
        config: The checked configuration.
        resolved: The same as plain data, for the manifest and the run's identity.

    Raises:
        ReflexionError, EnvironmentFault: With one line that says what is wrong.
    """
    tasks, prompts = check(config)
    _check_writable(Path(config.paths.runs))
    async with config.env as environment:
        tokenizer = config.backend.tokenizer(config.model)
        _check_context(config, prompts, tokenizer)
        agent = make_agent(config, prompts, tokenizer)
        with _opened(config, resolved, tasks) as store:
            if not store.open_tasks():
                return Finished(store.folder, played=False)
            store.begin(manifest.software())
            print(f"run {store.folder}: loading {config.backend.label(config.model)}", flush=True)
            async with (
                config.backend.load(config.model, config.seed) as model,
                _watched(config, agent, model, store) as tally,
            ):
                await sweep(agent, environment, tasks, store, tally, config.limits.max_episodes)
            errors = store.progress().episodes.get("error", 0)
            return Finished(store.folder, played=True, errors=errors)


def check(config: SweepConfig) -> tuple[Sequence[Task], Prompts]:
    """The tasks and prompts of a sweep; whatever is wrong with them is found here.

    Raises:
        ReflexionError, EnvironmentFault: With one line that says what is wrong.
    """
    tasks = select(config.env.tasks(), config.tasks)
    prompts = config.prompts.for_environment(config.env.name)
    past = PastTrial(1, Trajectory((), "finished"), {}, Verdict(False, 0.0, "feedback"), Note(1, "note"))
    seen = {
        "task": tasks[0],
        "notes": (past.note,),
        "steps": [Step(1, "action", "answer")],
        "history": (past,),
    }
    for template, given in _templates(config).items():
        prompts.check([template], {**seen, **given})
        prompts.check([template], {**seen, "notes": (), "history": (), **given})
    return tasks, prompts


def _templates(config: SweepConfig) -> Mapping[str, Mapping[str, Any]]:
    """The templates that this configuration's players use, with samples of what they give to them."""
    players: list[Actor | Evaluator | Reflector] = [config.actor, config.evaluator]
    if config.strategy.reflect:
        players.append(config.reflector)
    return {name: given for player in players for name, given in player.templates.items()}


def select(tasks: Sequence[Task], selection: Selection) -> Sequence[Task]:
    """The tasks that are to be played, in the environment's order. Raises ConfigError for an unknown id."""
    known = {task.id for task in tasks}
    for wanted in selection.ids:
        if wanted not in known:
            raise ConfigError(f"tasks.ids: there is no task {wanted!r}{did_you_mean(wanted, known)}")
    chosen = [task for task in tasks if not selection.ids or task.id in selection.ids]
    if not chosen:
        raise ConfigError("env: there is not a single task")
    return chosen[: selection.first]


def make_agent(config: SweepConfig, prompts: Prompts, tokenizer: Tokenizer) -> Agent:
    """Who plays in this configuration."""
    return Agent(
        actor=config.actor,
        evaluator=config.evaluator,
        reflector=config.reflector,
        memory=config.memory,
        strategy=config.strategy,
        prompts=prompts,
        sampling=config.sampling,
        count_tokens=tokenizer.count,
        seed=config.seed,
    )


@contextlib.contextmanager
def _opened(config: SweepConfig, resolved: Mapping[str, Any], tasks: Sequence[Task]) -> Iterator[Store]:
    source = config.env.source()
    identity = manifest.identity(resolved, config, source, config.backend.fingerprint(config.model))
    folder = Path(config.paths.runs) / manifest.run_name(config, source, identity)
    store = Store.open(folder, tasks)
    try:
        manifest.write(folder, resolved, config, source, identity)
        yield store
    finally:
        store.close()


@contextlib.asynccontextmanager
async def _watched(
    config: SweepConfig, agent: Agent, model: LanguageModel, store: Store
) -> AsyncIterator[Tally]:
    """The model with a tally of what passes through it, shown while the context lasts."""
    tally = Tally(model, store.progress(), agent.strategy.trials)
    watcher = asyncio.create_task(config.display.watch(tally.snapshot))
    try:
        yield tally
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):  # a closed terminal stops no sweep
            await watcher


def _check_context(config: SweepConfig, prompts: Prompts, tokenizer: Tokenizer) -> None:
    """Refuse a context that not even the constant part of each prompt fits in."""
    for name in _templates(config):
        tokens = tokenizer.count(prompts.constant_part(name))
        if tokens + _LEAST_ROOM > tokenizer.context_tokens:
            raise ConfigError(
                f"model.max_model_len: a context of {tokenizer.context_tokens} tokens is too small, for "
                f"the instructions and examples of the {name} prompt alone take {tokens}; make it larger"
            )


def _check_writable(runs: Path) -> None:
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"paths.runs: {runs} cannot be made ({error.strerror}); name another folder"
        ) from error
    if not os.access(runs, os.W_OK | os.X_OK):
        raise RecordError(f"paths.runs: {runs} cannot be written; name another folder")
