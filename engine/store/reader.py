"""What can be read back from a run's record."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from engine.records import Completion, Ending, Message, Note, Prompt, Step, Tag, Trajectory, Trial, Verdict
from engine.store.tables import connect_read_only, reported
from envs.base import Score


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode, for reports."""

    task: str
    kind: str
    status: str
    error: str | None


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial without its contents, for reports; times as in `engine.records.Trial`."""

    task: str
    number: int
    ending: str
    passed: bool
    correct: bool
    has_note: bool
    started_at: float
    seconds: float
    model_s: float
    environment_s: float


@dataclass(frozen=True, slots=True)
class CallRow:
    """One model call without its texts, for reports; times as in `engine.records.Completion`."""

    trial: int
    role: str
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    started_at: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Record:
    """A run's figures."""

    episodes: list[EpisodeRow]
    trials: list[TrialRow]
    calls: list[CallRow]


def read(run: Path) -> Record:
    """The figures of a recorded run. Raises RecordError."""
    with reported(run), closing(connect_read_only(run)) as db:
        episodes = db.execute("SELECT task, kind, status, error FROM episodes ORDER BY position")
        trials = db.execute(
            "SELECT task, number, ending, passed, correct, note IS NOT NULL,"
            " started_at, seconds, model_s, environment_s FROM trials"
        )
        calls = db.execute(
            "SELECT trial, role, prompt_tokens, cached_tokens, generated_tokens, started_at, total_s"
            " FROM calls"
        )
        return Record(
            [EpisodeRow(*row) for row in episodes],
            [
                TrialRow(task, number, ending, bool(passed), bool(correct), bool(note), *times)
                for task, number, ending, passed, correct, note, *times in trials
            ],
            [CallRow(*row) for row in calls],
        )


def recorded_calls(run: Path) -> Iterator[tuple[Tag, Prompt, Completion]]:
    """Every model call of a recorded run. Raises RecordError."""
    with reported(run), closing(connect_read_only(run)) as db:
        texts: dict[int, str] = dict(db.execute("SELECT id, text FROM texts").fetchall())
        rows = db.execute(
            "SELECT task, trial, role, step, sample, prompt, text, reasoning, finish_reason, prompt_tokens,"
            " cached_tokens, generated_tokens, started_at, queued_s, first_token_s, total_s FROM calls"
        )
        for task, trial, role, step, sample, prompt, *answer in rows:
            tag = Tag(task, trial, role, step, sample)
            yield tag, _read_prompt(json.loads(prompt), texts), Completion(*answer)


def read_trials(db: sqlite3.Connection, task: str) -> tuple[Trial, ...]:
    """The trials of a task, in order, without their model calls."""
    rows = db.execute(
        "SELECT number, ending, outcome, passed, verdict, feedback, evidence, correct, score, detail, note,"
        " started_at, seconds, model_s, environment_s FROM trials WHERE task = ? ORDER BY number",
        (task,),
    ).fetchall()
    return tuple(_read_trial(db, task, *row) for row in rows)


def _read_trial(
    db: sqlite3.Connection,
    task: str,
    number: int,
    ending: Ending,
    outcome: str,
    passed: int,
    verdict: float,
    feedback: str,
    evidence: str,
    correct: int,
    score: float,
    detail: str,
    note: str | None,
    *times: float,
) -> Trial:
    return Trial(
        task,
        number,
        Trajectory(_read_steps(db, task, number), ending),
        json.loads(outcome),
        Verdict(bool(passed), verdict, feedback, json.loads(evidence)),
        Score(score, bool(correct), json.loads(detail)),
        Note(number, note) if note is not None else None,
        (),
        *times,
    )


def _read_steps(db: sqlite3.Connection, task: str, trial: int) -> tuple[Step, ...]:
    rows = db.execute(
        "SELECT number, action, observation, valid, thought FROM steps"
        " WHERE task = ? AND trial = ? ORDER BY number",
        (task, trial),
    )
    return tuple(Step(n, action, seen, bool(valid), thought) for n, action, seen, valid, thought in rows)


def _read_prompt(turns: list[int] | list[tuple[str, int]], texts: dict[int, str]) -> Prompt:
    if isinstance(turns[0], int):
        return texts[turns[0]]
    return tuple(Message(role, texts[text]) for role, text in turns)  # type: ignore[arg-type]  # JSON
