"""A run's figures per trial and per role."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.store import CallRow, Record, TrialRow


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of all trials with one number.

    Attributes:
        number: The trial's number, from 1.
        attempted: Tasks that got so far.
        passed: Trials that the evaluator passed.
        correct: Trials that the scorer counts as solved.
        true_positives: Passed and correct.
        false_positives: Passed but not correct.
        false_negatives: Not passed although correct.
        true_negatives: Neither.
        solved_so_far: Tasks whose latest trial up to this number is correct.
        notes: Notes written.
    """

    number: int
    attempted: int
    passed: int
    correct: int
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int
    solved_so_far: int
    notes: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a group of model calls took.

    Attributes:
        calls: Number of model calls.
        prompt_tokens: Tokens of all prompts, cached ones included.
        cached_tokens: Those that the prefix cache had.
        generated_tokens: Tokens generated.
        wall_s: Seconds during which at least one trial (or call) of the group was under way.
        tokens_per_s: Generated tokens per second of the time with at least one call under way.
        p50_s: Median seconds of a call.
        p95_s: 95th percentile of the seconds of a call.
        model_s: Sum over trials of the seconds in which the trial waited for the model.
        environment_s: Sum over trials of the seconds spent in world, tests and scorer.
    """

    calls: int
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    wall_s: float
    tokens_per_s: float
    p50_s: float
    p95_s: float
    model_s: float
    environment_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All figures of a run.

    Attributes:
        run: The run directory.
        tasks: Number of tasks.
        open: Episodes that are not over.
        errors: (task, message) of the episodes that ended in an error.
        outcomes: Per trial number.
        cost_by_trial: Per trial number.
        cost_by_role: Per role.
        total: Of everything.
    """

    run: Path
    tasks: int
    open: int
    errors: list[tuple[str, str]]
    outcomes: list[Outcomes]
    cost_by_trial: dict[int, Cost]
    cost_by_role: dict[str, Cost]
    total: Cost


def summarize(run: Path, record: Record) -> Summary:
    """Add up a run's record."""
    numbers = sorted({trial.number for trial in record.trials})
    roles = sorted({call.role for call in record.calls})
    return Summary(
        run=run,
        tasks=len(record.episodes),
        open=sum(episode.status == "open" for episode in record.episodes),
        errors=[
            (episode.task, episode.error or "") for episode in record.episodes if episode.status == "error"
        ],
        outcomes=[_outcomes(number, record.trials) for number in numbers],
        cost_by_trial={
            number: _cost(
                [call for call in record.calls if call.trial == number],
                [trial for trial in record.trials if trial.number == number],
            )
            for number in numbers
        },
        cost_by_role={
            role: _cost([call for call in record.calls if call.role == role], []) for role in roles
        },
        total=_cost(record.calls, record.trials),
    )


def union_s(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds covered by at least one (start, length) span."""
    covered, end = 0.0, -math.inf
    for start, length in sorted(spans):
        covered += max(0.0, start + length - max(start, end))
        end = max(end, start + length)
    return covered


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; 0 of no values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _outcomes(number: int, trials: Sequence[TrialRow]) -> Outcomes:
    these = [trial for trial in trials if trial.number == number]
    latest: dict[str, TrialRow] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        if trial.number <= number:
            latest[trial.task] = trial
    return Outcomes(
        number=number,
        attempted=len(these),
        passed=sum(trial.passed for trial in these),
        correct=sum(trial.correct for trial in these),
        true_positives=sum(trial.passed and trial.correct for trial in these),
        false_positives=sum(trial.passed and not trial.correct for trial in these),
        false_negatives=sum(not trial.passed and trial.correct for trial in these),
        true_negatives=sum(not trial.passed and not trial.correct for trial in these),
        solved_so_far=sum(trial.correct for trial in latest.values()),
        notes=sum(trial.has_note for trial in these),
    )


def _cost(calls: Sequence[CallRow], trials: Sequence[TrialRow]) -> Cost:
    busy = union_s((call.started_at, call.total_s) for call in calls)
    generated = sum(call.generated_tokens for call in calls)
    latencies = [call.total_s for call in calls]
    return Cost(
        calls=len(calls),
        prompt_tokens=sum(call.prompt_tokens for call in calls),
        cached_tokens=sum(call.cached_tokens for call in calls),
        generated_tokens=generated,
        wall_s=union_s((trial.started_at, trial.seconds) for trial in trials) if trials else busy,
        tokens_per_s=generated / busy if busy else 0.0,
        p50_s=percentile(latencies, 0.50),
        p95_s=percentile(latencies, 0.95),
        model_s=sum(trial.model_s for trial in trials),
        environment_s=sum(trial.environment_s for trial in trials),
    )
