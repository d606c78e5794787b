"""Score recorded outcomes without a model: python scripts/score.py env=… outcomes=FILE out=FILE."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import config
from engine.config import Security, did_you_mean
from engine.errors import ConfigError
from envs.base import DataError, Environment, Outcome, Task
from envs.data import read_jsonl
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
        if not Path(self.out).absolute().parent.is_dir():
            raise ValueError(f"out: must lie in a folder that exists, got {self.out!r}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded outcome, and where it stands."""

    task: Task
    outcome: Outcome
    place: str


def check(resolved: dict[str, Any]) -> tuple[Options, Environment]:
    """The options and the environment. Raises ConfigError."""
    nodes = dict(resolved)
    allowed = config.build(nodes.pop("security"), "security", Security).allow_targets
    env: Environment = config.build(nodes.pop("env"), "env", None, allowed)
    try:
        options: Options = config.build(nodes, "score", Options)
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("score.")) from error
    return options, env


def job(resolved: dict[str, Any]) -> None:
    """Score every outcome and write the scores."""
    options, env = check(resolved)
    lines = asyncio.run(score_all(options, env))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    try:
        Path(options.out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"out: cannot be written ({error})") from error
    correct = sum(line["correct"] for line in lines)
    print(f"{options.out}: {len(lines)} outcomes, {correct} correct", flush=True)


async def score_all(options: Options, env: Environment) -> list[dict[str, Any]]:
    """The scores of all outcomes, in order. Raises DataError for the first line that cannot be scored."""
    entries = read_entries(Path(options.outcomes), {task.id: task for task in env.tasks()})
    async with env, asyncio.TaskGroup() as group:
        jobs = [group.create_task(_score(env, entry, options.observations)) for entry in entries]
    results = [job.result() for job in jobs]
    for result in results:
        if isinstance(result, DataError):
            raise result
    return [result for result in results if not isinstance(result, DataError)]


def read_entries(path: Path, tasks: Mapping[str, Task]) -> list[Entry]:
    """The recorded outcomes of a file. Raises DataError."""
    entries = []
    for record in read_jsonl(path):
        name, outcome = record.text("task_id"), record.fields.get("outcome")
        if name not in tasks:
            raise DataError(f"{record.place}: there is no task {name!r}{did_you_mean(name, tasks)}")
        if not isinstance(outcome, dict):
            raise DataError(f"{record.place}: field 'outcome' must be an object, got {outcome!r:.80}")
        entries.append(Entry(tasks[name], outcome, record.place))
    return entries


async def _score(env: Environment, entry: Entry, observations: bool) -> dict[str, Any] | DataError:
    try:
        score = await env.score(entry.task, entry.outcome)
    except DataError as error:
        return DataError(f"{entry.place}: {error}")
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
    """What each action is answered in a fresh session; an outcome without actions has no answers."""
    answers = []
    async with env.open(entry.task) as session:
        for action in entry.outcome.get("actions", ()):
            observation = await session.step(action)
            answers.append(observation.text)
            if observation.done:
                break
    return answers


if __name__ == "__main__":
    hydra_app.main("score", check, job)
