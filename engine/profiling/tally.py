"""Counts a running sweep for the live view. The final tables are made from the record instead."""

import time
from collections import Counter, deque
from dataclasses import dataclass

from engine.inference.base import LanguageModel, ModelStats
from engine.records import Completion, Request, Trial
from engine.store import Progress

_RATE_WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A running sweep at one moment.

    Attributes:
        elapsed_s: Since this process began to play.
        episodes: Number of episodes in all.
        over: Those that have ended, errors included.
        under_way: Those being played.
        errors: Those that ended in an error.
        played: Trials recorded, by trial number.
        passed: Those that the evaluator passed.
        correct: Those that the scorer counts as solved.
        model: The model's own state.
        tokens_per_s: Tokens generated a second, over the last ten seconds.
        cache_hit_rate: Share of the prompt tokens that the prefix cache had.
        left_s: Estimated seconds until the end; None while there is nothing to estimate from.
    """

    elapsed_s: float
    episodes: int
    over: int
    under_way: int
    errors: int
    played: Counter[int]
    passed: Counter[int]
    correct: Counter[int]
    model: ModelStats
    tokens_per_s: float
    cache_hit_rate: float
    left_s: float | None


class Tally:
    """Passes requests on to the model, and counts them and the trials that come of them."""

    def __init__(self, model: LanguageModel, recorded: Progress, max_trials: int) -> None:
        self._model = model
        self._max_trials = max_trials
        self._episodes = sum(recorded.episodes.values())
        self._over = recorded.episodes.get("passed", 0) + recorded.episodes.get("failed", 0)
        self._under_way: dict[str, int] = {}
        self._errors = 0
        self._played: Counter[int] = Counter()
        self._passed: Counter[int] = Counter()
        self._correct: Counter[int] = Counter()
        for number, passed, correct in recorded.trials:
            self._count(number, passed, correct)
        self._started = time.monotonic()
        self._trials_here = 0
        self._prompt_tokens = self._cached_tokens = 0
        self._generated: deque[tuple[float, int]] = deque()

    async def complete(self, request: Request) -> Completion:
        """Pass one request on to the model."""
        completion = await self._model.complete(request)
        self._prompt_tokens += completion.prompt_tokens
        self._cached_tokens += completion.cached_tokens
        self._generated.append((time.monotonic(), completion.generated_tokens))
        self._forget_old_tokens()
        return completion

    def stats(self) -> ModelStats:
        """The model's state now."""
        return self._model.stats()

    async def forget(self) -> None:
        """Empty the model's prefix cache."""
        await self._model.forget()

    def begin(self, task: str, trials: int) -> None:
        """An episode starts or goes on, with so many trials behind it."""
        self._under_way[task] = trials

    def add(self, trial: Trial) -> None:
        """A trial has been recorded."""
        self._trials_here += 1
        self._under_way[trial.task] = trial.number
        self._count(trial.number, trial.verdict.passed, trial.score.correct)

    def end(self, task: str, *, error: bool = False) -> None:
        """An episode is over."""
        self._under_way.pop(task, None)
        self._over += 1
        self._errors += error

    def snapshot(self) -> Snapshot:
        """The sweep now."""
        elapsed = time.monotonic() - self._started
        return Snapshot(
            elapsed_s=elapsed,
            episodes=self._episodes,
            over=self._over,
            under_way=len(self._under_way),
            errors=self._errors,
            played=self._played.copy(),
            passed=self._passed.copy(),
            correct=self._correct.copy(),
            model=self._model.stats(),
            tokens_per_s=self._rate(elapsed),
            cache_hit_rate=self._cached_tokens / self._prompt_tokens if self._prompt_tokens else 0.0,
            left_s=self._trials_left() / self._trials_here * elapsed if self._trials_here else None,
        )

    def _count(self, number: int, passed: bool, correct: bool) -> None:
        self._played[number] += 1
        self._passed[number] += passed
        self._correct[number] += correct

    def _rate(self, elapsed: float) -> float:
        self._forget_old_tokens()
        window = min(_RATE_WINDOW_S, elapsed)
        return sum(tokens for _, tokens in self._generated) / window if window > 0 else 0.0

    def _forget_old_tokens(self) -> None:
        oldest = time.monotonic() - _RATE_WINDOW_S
        while self._generated and self._generated[0][0] < oldest:
            self._generated.popleft()

    def _trials_left(self) -> float:
        """Expected number of trials still to play, from the pass rate of each trial number so far."""
        known = max(self._played, default=0)
        expected = {known: float(self._max_trials - known)}  # of an episode with so many trials behind it
        for number in range(known, 0, -1):
            fails = 1 - self._passed[number] / self._played[number]
            expected[number - 1] = 1 + fails * expected[number]
        waiting = self._episodes - self._over - len(self._under_way)
        return waiting * expected[0] + sum(expected[done] for done in self._under_way.values())
