"""One trial under way: the only way to the model and the world, so that everything is recorded."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from engine.inference.base import LanguageModel
from engine.prompts import Prompts
from engine.records import (
    Call,
    Completion,
    Ending,
    Grammar,
    Note,
    PastTrial,
    Request,
    Role,
    Sampling,
    Step,
    Tag,
    Trajectory,
)
from envs.base import Observation, Session, Task


class Stopwatch:
    """Adds up the time during which at least one activity is under way."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._active = 0
        self._since = 0.0

    def __enter__(self) -> None:
        if not self._active:
            self._since = time.perf_counter()
        self._active += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._active -= 1
        if not self._active:
            self.seconds += time.perf_counter() - self._since


class Attempt:
    """What actors, evaluators and reflectors work with while a trial lasts.

    Attributes:
        task: The task.
        number: The trial's number, from 1.
        notes: The notes of earlier trials that memory lets through, oldest first.
        history: The earlier trials of this episode, without their scores.
        session: This trial's world.
        steps: The steps so far.
        ending: Why the trajectory ended; actors set it when they stop before the world does.
        calls: The model calls so far.
        model_clock: Runs while the model is asked.
        environment_clock: Runs while the environment works; evaluators enter it around their use of it.
    """

    def __init__(
        self,
        *,
        task: Task,
        number: int,
        notes: Sequence[Note],
        history: Sequence[PastTrial],
        session: Session,
        model: LanguageModel,
        prompts: Prompts,
        sampling: Mapping[Role, Sampling],
        seed: int,
        priority: int,
    ) -> None:
        self.task = task
        self.number = number
        self.notes = tuple(notes)
        self.history = tuple(history)
        self.session = session
        self.steps: list[Step] = []
        self.ending: Ending = "finished"
        self.calls: list[Call] = []
        self.model_clock = Stopwatch()
        self.environment_clock = Stopwatch()
        self._model = model
        self._prompts = prompts
        self._sampling = sampling
        self._seed = seed
        self._priority = priority

    @property
    def trajectory(self) -> Trajectory:
        """The steps so far, and why they ended."""
        return Trajectory(tuple(self.steps), self.ending)

    async def ask(
        self,
        role: Role,
        template: str | None = None,
        *,
        sample: int = 0,
        grammar: Grammar | None = None,
        **variables: Any,
    ) -> Completion:
        """Ask the model in one role, with the prompt template of that name (the role's own by default).

        Templates see `task`, `notes`, `steps`, `history` and the given variables. Raises ContextFull.
        """
        prompt = self._prompts.render(
            template or role,
            task=self.task,
            notes=self.notes,
            steps=self.steps,
            history=self.history,
            **variables,
        )
        step = len(self.steps) + 1 if role == "actor" else 0
        tag = Tag(self.task.id, self.number, role, step, sample)
        request = Request(
            prompt, self._sampling[role], tag, tag.seed(self._seed), grammar, priority=self._priority
        )
        with self.model_clock:
            completion = await self._model.complete(request)
        self.calls.append(Call(request, completion))
        return completion

    async def act(self, action: str, *, thought: str = "") -> Observation:
        """Take one step in the world and record it."""
        with self.environment_clock:
            observation = await self.session.step(action)
        self.steps.append(
            Step(len(self.steps) + 1, action, observation.text, valid=observation.valid, thought=thought)
        )
        return observation
