from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.report.summary import percentile, summarize, union_s
from engine.store import CallRow, EpisodeRow, Record, TrialRow


def trial(task: str, number: int, *, passed: bool, correct: bool, started_at: float = 0.0) -> TrialRow:
    return TrialRow(task, number, "finished", passed, correct, not passed, started_at, 10.0, 6.0, 3.0)


def call(number: int, role: str, started_at: float, total_s: float, generated: int) -> CallRow:
    return CallRow(number, role, 100, 40, generated, started_at, total_s)


RECORD = Record(
    episodes=[
        EpisodeRow("a", "", "passed", None),
        EpisodeRow("b", "", "failed", None),
        EpisodeRow("c", "", "error", "KeyError: x"),
        EpisodeRow("d", "", "open", None),
    ],
    trials=[
        trial("a", 1, passed=True, correct=True, started_at=0.0),
        trial("b", 1, passed=False, correct=True, started_at=5.0),
        trial("d", 1, passed=False, correct=False, started_at=40.0),
        trial("b", 2, passed=True, correct=False, started_at=20.0),
    ],
    calls=[
        call(1, "actor", 0.0, 4.0, 30),
        call(1, "actor", 2.0, 4.0, 30),
        call(2, "actor", 20.0, 2.0, 10),
        call(1, "reflector", 6.0, 1.0, 5),
    ],
)


def test_verdicts_are_set_against_scores_per_trial() -> None:
    first, second = summarize(Path("run"), RECORD).outcomes
    assert (first.attempted, first.passed, first.correct, first.notes) == (3, 1, 2, 2)
    assert (
        first.true_positives,
        first.false_positives,
        first.false_negatives,
        first.true_negatives,
    ) == (1, 0, 1, 1)
    assert (second.true_positives, second.false_positives) == (0, 1)


def test_a_task_counts_as_solved_by_its_latest_trial() -> None:
    """b was right in trial 1, went on because its own tests failed, and ended wrong."""
    assert [row.solved_so_far for row in summarize(Path("run"), RECORD).outcomes] == [2, 1]


def test_an_error_and_an_open_episode_are_neither_pass_nor_fail() -> None:
    summary = summarize(Path("run"), RECORD)
    assert summary.errors == [("c", "KeyError: x")]
    assert (summary.tasks, summary.open) == (4, 1)


def test_overlapping_calls_are_not_counted_twice_in_rates() -> None:
    summary = summarize(Path("run"), RECORD)
    cost = summary.cost_by_trial[1]
    assert (cost.calls, cost.prompt_tokens, cost.cached_tokens, cost.generated_tokens) == (3, 300, 120, 65)
    assert cost.tokens_per_s == pytest.approx(65 / 7)
    assert cost.wall_s == pytest.approx(15 + 10)
    assert (cost.model_s, cost.environment_s) == (18.0, 9.0)
    assert summary.cost_by_role["actor"].wall_s == pytest.approx(6 + 2)
    assert summary.total.calls == 4


def test_a_run_without_trials_has_a_summary() -> None:
    empty = summarize(Path("run"), Record([], [], []))
    assert empty.outcomes == []
    assert empty.total.tokens_per_s == 0.0


def test_percentiles_are_observed_values() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile([], 0.5)) == (50.0, 95.0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12))
def test_a_union_covers_each_second_once(spans: list[tuple[int, int]]) -> None:
    covered = {second for start, length in spans for second in range(start, start + length)}
    assert union_s(spans) == len(covered)
