"""Reflexion for one task (Shinn et al. 2023, algorithm 1)."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.actors.base import Actor
from engine.attempt import Attempt
from engine.errors import ContextFull
from engine.evaluators.base import Evaluator
from engine.inference.base import LanguageModel
from engine.memory import Memory
from engine.prompts import Prompts
from engine.records import Note, Role, Sampling, Trial, Verdict
from engine.reflectors.base import Reflector
from envs.base import Environment, Outcome, Score, Task


@dataclass(frozen=True, slots=True)
class Strategy:
    """Which loop is run.

    Attributes:
        name: Its name in run directories and reports.
        trials: Most trials of a task.
        reflect: Whether a failed trial leaves a note for the next one; without, trials are independent.
    """

    name: str
    trials: int
    reflect: bool

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise ValueError(f"trials: must be 1 or more, got {self.trials}")


@dataclass(frozen=True, slots=True)
class Agent:
    """Who plays: everything about the loop that is the same for all tasks of a sweep.

    Attributes:
        actor: Plays a trial.
        evaluator: Judges it.
        reflector: Writes the note after a failure.
        memory: Bounds the notes.
        strategy: Which loop.
        prompts: The words put to the model.
        sampling: How each role's answers are drawn.
        count_tokens: Tokens of a text in the model's own tokenizer.
        seed: The sweep's seed.
    """

    actor: Actor
    evaluator: Evaluator
    reflector: Reflector
    memory: Memory
    strategy: Strategy
    prompts: Prompts
    sampling: Mapping[Role, Sampling]
    count_tokens: Callable[[str], int]
    seed: int


def is_over(history: Sequence[Trial], strategy: Strategy) -> bool:
    """Whether an episode with these trials has ended: passed, or out of trials."""
    return bool(history) and (history[-1].verdict.passed or history[-1].number >= strategy.trials)


async def play_trial(
    agent: Agent,
    environment: Environment,
    model: LanguageModel,
    task: Task,
    history: Sequence[Trial],
    priority: int,
) -> Trial:
    """Play, judge, score and reflect once, in a fresh world."""
    started_at, start = time.time(), time.perf_counter()
    notes = [trial.note for trial in history if trial.note]
    world = environment.open(task)
    async with world as session:
        attempt = Attempt(
            task=task,
            number=len(history) + 1,
            notes=agent.memory.recall(notes, agent.count_tokens),
            history=[trial.as_known_to_agent() for trial in history],
            session=session,
            model=model,
            prompts=agent.prompts,
            sampling=agent.sampling,
            seed=agent.seed,
            priority=priority,
        )
        try:
            await agent.actor.play(attempt)
        except ContextFull:
            attempt.ending = "context_full"
        verdict = await agent.evaluator.judge(attempt)
        outcome = session.outcome()
    async with asyncio.TaskGroup() as together:
        score = together.create_task(_score(environment, attempt, outcome))
        note = together.create_task(_reflect(agent, attempt, verdict))
    return Trial(
        task=task.id,
        number=attempt.number,
        trajectory=attempt.trajectory,
        outcome=outcome,
        verdict=verdict,
        score=score.result(),
        note=note.result(),
        calls=tuple(attempt.calls),
        started_at=started_at,
        seconds=time.perf_counter() - start,
        model_s=attempt.model_clock.seconds,
        environment_s=attempt.environment_clock.seconds,
    )


async def _score(environment: Environment, attempt: Attempt, outcome: Outcome) -> Score:
    with attempt.environment_clock:
        return await environment.score(attempt.task, outcome)


async def _reflect(agent: Agent, attempt: Attempt, verdict: Verdict) -> Note | None:
    another_trial_follows = not verdict.passed and attempt.number < agent.strategy.trials
    if agent.strategy.reflect and another_trial_follows:
        return await agent.reflector.reflect(attempt, verdict)
    return None
