"""The one writer of a run's record.

A trial is written in one transaction, with its steps, verdict, score, note and model calls, before the
episode's next trial begins; so whatever stops the process costs only the trials under way.
"""

import asyncio
import fcntl
import functools
import hashlib
import json
import os
import sqlite3
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from engine.errors import RecordError
from engine.records import Call, Prompt, Trial
from engine.store.reader import read_trials
from engine.store.tables import connect, reported
from envs.base import Task

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come.

    Attributes:
        episodes: Number of episodes by status: open, passed, failed, error.
        trials: (number, passed, correct) of every recorded trial.
    """

    episodes: dict[str, int]
    trials: list[tuple[int, bool, bool]]


class Store:
    """The writer of one run. Only one process may hold it at a time."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: int) -> None:
        self.folder = folder
        self._db = connection
        self._lock = lock
        self._process: int | None = None
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._texts: dict[bytes, int] = dict(connection.execute("SELECT sha256, id FROM texts").fetchall())

    @classmethod
    def open(cls, folder: Path, tasks: Sequence[Task]) -> Self:
        """Create the run's record, or continue it. Raises RecordError.

        Args:
            folder: The run directory, made if need be.
            tasks: The sweep's tasks in order.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _lock(folder)
        except OSError as error:
            raise RecordError(
                f"{folder}: cannot be written ({error.strerror}); set paths.runs=FOLDER"
            ) from error
        connection = connect(folder)
        with reported(folder), connection:
            connection.executemany(
                "INSERT INTO episodes (task, position, kind, status) VALUES (?, ?, ?, 'open')"
                " ON CONFLICT DO NOTHING",
                [(task.id, position, task.kind) for position, task in enumerate(tasks)],
            )
        return cls(folder, connection, lock)

    def begin(self, software: dict[str, str]) -> None:
        """Note that this process, with these package versions, starts or continues the run."""
        with reported(self.folder), self._db:
            self._process = self._db.execute(
                "INSERT INTO processes (started_at, software) VALUES (?, ?)", (time.time(), _dump(software))
            ).lastrowid

    def open_tasks(self) -> set[str]:
        """Ids of the tasks whose episodes are not over; those that ended in an error count as open."""
        with reported(self.folder):
            rows = self._db.execute("SELECT task FROM episodes WHERE status IN ('open', 'error')")
            return {task for (task,) in rows}

    def progress(self) -> Progress:
        """How far the run has come."""
        with reported(self.folder):
            episodes = self._db.execute("SELECT status, count(*) FROM episodes GROUP BY status").fetchall()
            trials = self._db.execute("SELECT number, passed, correct FROM trials ORDER BY started_at")
            return Progress(dict(episodes), [(number, bool(p), bool(c)) for number, p, c in trials])

    async def history(self, task: str) -> tuple[Trial, ...]:
        """The recorded trials of a task, in order, without their model calls."""
        return await self._run(read_trials, self._db, task)

    async def commit(self, trial: Trial, *, over: bool) -> None:
        """Write one trial in one transaction; `over` says whether it was the episode's last."""
        await self._run(self._write_trial, trial, over)

    async def fail(self, task: str, error: BaseException) -> None:
        """Mark an episode as ended by an error: neither pass nor fail, and tried again on the next start."""
        line = " ".join(f"{type(error).__name__}: {error}".split())
        trace = "".join(traceback.format_exception(error))
        await self._run(self._write_error, task, _storable(line), _storable(trace))

    def close(self) -> None:
        """Wait for what is being written, and let go of the run. Raises RecordError."""
        self._writer.shutdown(wait=True)
        try:
            with reported(self.folder), self._db:
                self._db.execute(
                    "UPDATE processes SET finished_at = ? WHERE id = ?", (time.time(), self._process)
                )
        finally:
            self._db.close()
            os.close(self._lock)

    async def _run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        loop = asyncio.get_running_loop()
        with reported(self.folder):
            return await loop.run_in_executor(self._writer, functools.partial(function, *arguments))

    def _write_error(self, task: str, line: str, trace: str) -> None:
        with self._db:
            self._db.execute(
                "UPDATE episodes SET status = 'error', error = ?, trace = ? WHERE task = ?",
                (line, trace, task),
            )

    def _write_trial(self, trial: Trial, over: bool) -> None:
        status = "open" if not over else "passed" if trial.verdict.passed else "failed"
        added: dict[bytes, int] = {}
        with self._db:
            self._db.execute(
                "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                _trial_row(trial, self._process),
            )
            self._db.executemany(
                "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        trial.task,
                        trial.number,
                        s.number,
                        *map(_storable, (s.thought, s.action, s.observation)),
                        s.valid,
                    )
                    for s in trial.trajectory.steps
                ],
            )
            self._db.executemany(
                f"INSERT INTO calls VALUES ({', '.join('?' * 19)})",
                [_call_row(call, self._store_prompt(call.request.prompt, added)) for call in trial.calls],
            )
            self._db.execute(
                "UPDATE episodes SET status = ?, error = NULL, trace = NULL WHERE task = ?",
                (status, trial.task),
            )
        self._texts |= added

    def _store_prompt(self, prompt: Prompt, added: dict[bytes, int]) -> str:
        if isinstance(prompt, str):
            return _dump([self._store_text(prompt, added)])
        return _dump([[turn.role, self._store_text(turn.content, added)] for turn in prompt])

    def _store_text(self, text: str, added: dict[bytes, int]) -> int:
        """The text's id; `added` remembers new ones until their transaction has been committed."""
        text = _storable(text)
        key = hashlib.sha256(text.encode()).digest()
        known = self._texts.get(key) or added.get(key)
        if known is None:
            row = self._db.execute("INSERT INTO texts (sha256, text) VALUES (?, ?)", (key, text))
            known = added[key] = int(row.lastrowid or 0)
        return known


def _lock(folder: Path) -> int:
    """Hold the run for this process; the lock goes with the process, however that ends."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise RecordError(f"{folder}: another process is working on this run") from error
    return handle


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


def _storable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold and programs under test may print."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _trial_row(trial: Trial, process: int | None) -> tuple[Any, ...]:
    verdict, score = trial.verdict, trial.score
    return (
        *(trial.task, trial.number, process, trial.trajectory.ending, _dump(dict(trial.outcome))),
        *(verdict.passed, verdict.score, _storable(verdict.feedback), _dump(dict(verdict.evidence))),
        *(score.correct, score.value, _dump(dict(score.detail))),
        _storable(trial.note.text) if trial.note else None,
        *(trial.started_at, trial.seconds, trial.model_s, trial.environment_s),
    )


def _call_row(call: Call, prompt: str) -> tuple[Any, ...]:
    request, answer, tag = call.request, call.completion, call.request.tag
    return (
        *(tag.task, tag.trial, tag.role, tag.step, tag.sample, prompt, _dump(asdict(request.sampling))),
        _dump(asdict(request.grammar)) if request.grammar else None,
        *(request.seed, _storable(answer.text), _storable(answer.reasoning), answer.finish_reason),
        *(answer.prompt_tokens, answer.cached_tokens, answer.generated_tokens),
        *(answer.started_at, answer.queued_s, answer.first_token_s, answer.total_s),
    )
