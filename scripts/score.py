"""Score recorded outcomes without a model: python scripts/score.py env=… outcomes=FILE out=FILE."""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import config
from engine.config import Security, did_you_mean
from engine.errors import ConfigError
from envs.base import DataError, Environment, EnvironmentFault, Outcome, OutcomeChecker, Task
from envs.data import Record, read_jsonl
from scripts import hydra_app


@dataclass(frozen=True, slots=True)
class Options:
    """What is scored.

    Attributes:
        outcomes: JSONL file of {"task_id", "outcome"}, gzipped or not.
        out: JSONL file to write: {"task_id", "score", "correct", "detail"} per outcome, in the same order.
        observations: Whether to play the actions of each outcome and write what they were answered.
    """

    outcomes: str
    out: str
    observations: bool

    def __post_init__(self) -> None:
        for name in ("outcomes", "out"):
            if not getattr(self, name):
                raise ValueError(f"{name}: must be a file, got ''")
        try:
            complaint = _complaint(Path(self.out).absolute(), Path(self.outcomes))
        except OSError as error:
            complaint = f"cannot be written ({error})"
        if complaint:
            raise ValueError(f"out: {complaint}, got {self.out!r}")


def _complaint(out: Path, outcomes: Path) -> str:
    """Why the scores cannot be written there; empty where they can."""
    if not out.parent.is_dir():
        return "must lie in a folder that exists"
    if out.exists() and not out.is_file():
        return "must be a file"
    if out.resolve() == outcomes.resolve():
        return "must be another file than outcomes"
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        return "must be a file that can be written"
    return ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded outcome."""

    task: Task
    outcome: Outcome


def load(resolved: dict[str, Any]) -> tuple[Options, Environment]:
    """The options and the environment. Raises ConfigError."""
    nodes = dict(resolved)
    allowed = config.build(nodes.pop("security"), "security", Security).allow_targets
    env: Environment = config.build(nodes.pop("env"), "env", Environment, allowed)
    try:
        options: Options = config.build(nodes, "score", Options)
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("score.")) from error
    return options, env


def job(resolved: dict[str, Any]) -> None:
    """Score every outcome and write the scores, which take their name once they are complete."""
    options, env = load(resolved)
    entries = read_entries(Path(options.outcomes), env)
    out = Path(options.out).resolve()
    partial = out.with_name(f"{out.name}.{os.getpid()}.partial")
    try:
        with _writing():
            partial.touch()  # better to learn now than after an hour that this fails
        lines = asyncio.run(score_all(entries, env, options.observations))
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        with _writing():
            partial.write_text(
                text, encoding="utf-8", errors="backslashreplace"
            )  # "\ud800" is JSON's own escape
            partial.replace(out)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    correct = sum(line["correct"] for line in lines)
    print(f"{options.out}: {len(lines)} outcomes, {correct} correct", flush=True)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"out: cannot be written ({error})") from error


def read_entries(path: Path, env: Environment) -> list[Entry]:
    """The recorded outcomes of a file. Raises DataError for the first that cannot be scored."""
    tasks = {task.id: task for task in env.tasks()}
    return [_entry(record, tasks, env) for record in read_jsonl(path, "outcomes")]


def _entry(record: Record, tasks: Mapping[str, Task], env: Environment) -> Entry:
    name, outcome = record.text("task_id"), record.fields.get("outcome")
    if name not in tasks:
        raise DataError(f"{record.place}: there is no task {name!r}{did_you_mean(name, tasks)}")
    if not isinstance(outcome, dict):
        raise DataError(f"{record.place}: field 'outcome' must be an object, got {outcome!r:.80}")
    if isinstance(env, OutcomeChecker):
        try:
            env.check_outcome(tasks[name], outcome)
        except DataError as error:
            raise DataError(f"{record.place}: {error}") from None
    return Entry(tasks[name], outcome)


async def score_all(entries: Sequence[Entry], env: Environment, observations: bool) -> list[dict[str, Any]]:
    """The scores of all outcomes, in order. Raises EnvironmentFault."""
    try:
        async with env, asyncio.TaskGroup() as group:
            jobs = [group.create_task(_score(env, entry, observations)) for entry in entries]
    except ExceptionGroup as errors:
        faults = [error for error in errors.exceptions if isinstance(error, EnvironmentFault)]
        raise (faults or errors.exceptions)[0] from errors
    return [job.result() for job in jobs]


async def _score(env: Environment, entry: Entry, observations: bool) -> dict[str, Any]:
    score = await env.score(entry.task, entry.outcome)
    line: dict[str, Any] = {
        "task_id": entry.task.id,
        "score": score.value,
        "correct": score.correct,
        "detail": dict(score.detail),
    }
    if observations:
        line["observations"] = await _play(env, entry)
    return line


async def _play(env: Environment, entry: Entry) -> list[str]:
    """What each action is answered in a fresh session. A program or an answer is an action of its own."""
    answers = []
    async with env.open(entry.task) as session:
        for action in entry.outcome.get("actions", list(entry.outcome.values())):
            observation = await session.step(action)
            answers.append(observation.text)
            if observation.done:
                break
    return answers


if __name__ == "__main__":
    hydra_app.main("score", load, job)
