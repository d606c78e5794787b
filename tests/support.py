"""A tiny world and a scripted model, for tests of the loop's logic."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from engine.actors.code import CodeActor
from engine.attempt import Attempt
from engine.inference.base import ModelStats
from engine.loop import Agent, Strategy
from engine.memory import Memory
from engine.prompts import Prompts
from engine.records import Completion, Request, Sampling, Verdict
from engine.reflectors.verbal import VerbalReflector
from envs.base import DataSource, Observation, Outcome, Score, Session, Task

SAMPLING = {role: Sampling(temperature=0.5) for role in ("actor", "reflector", "evaluator", "test_writer")}


@dataclass
class GuessSession:
    """Accepts one guess."""

    guess: str = ""

    async def step(self, action: str) -> Observation:
        await asyncio.sleep(0)
        self.guess = action
        return Observation(f"you said {action}", done=True)

    def outcome(self) -> Outcome:
        return {"answer": self.guess}


@dataclass
class GuessEnv:
    """Tasks whose answer is their own number; the worlds opened and outcomes scored are counted."""

    size: int = 3
    opened: list[str] = field(default_factory=list)
    scored: list[str] = field(default_factory=list)

    name: ClassVar[str] = "guess"

    def tasks(self) -> Sequence[Task]:
        return [Task(f"g{number}", f"guess {number}") for number in range(self.size)]

    def source(self) -> DataSource:
        return DataSource("guess", "", f"{self.size:064}", self.size)

    @contextlib.asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Session]:
        self.opened.append(task.id)
        yield GuessSession()

    async def score(self, task: Task, outcome: Outcome) -> Score:
        self.scored.append(task.id)
        right = f"g{outcome['answer']}" == task.id
        return Score(float(right), right, {})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


@dataclass
class ScriptedModel:
    """Answers from a function, after a pause, and keeps every request."""

    answer: Callable[[Request], str]
    pause_s: float = 0.0
    requests: list[Request] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.pause_s)
        self.running -= 1
        text = self.answer(request)
        return Completion(text, prompt_tokens=10, cached_tokens=4, generated_tokens=len(text.split()))

    def stats(self) -> ModelStats:
        return ModelStats(running=self.running)

    async def forget(self) -> None:
        return None


@dataclass(frozen=True)
class SaysRight:
    """Passes a trial whose guess is the word "right", whatever the truth is."""

    oracle: ClassVar[bool] = False
    templates: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    async def judge(self, attempt: Attempt) -> Verdict:
        passed = attempt.steps[-1].action == "right" if attempt.steps else False
        return Verdict(passed, float(passed), "right" if passed else "wrong", {"guess": str(attempt.steps)})


def write_pack(folder: Path) -> Prompts:
    """A minimal pack for the tiny world."""
    folder.mkdir(parents=True, exist_ok=True)
    turn = '{% call message("user") %}'
    end = "{% endcall %}"
    notes = "{% for note in notes %}NOTE {{ note.text }}\n{% endfor %}"
    (folder / "actor.j2").write_text(f"{turn}{notes}{{{{ task.text }}}}{end}")
    (folder / "reflector.j2").write_text(
        f"{turn}{{{{ steps[-1].action if steps else '' }}}} {{{{ verdict.feedback }}}}{end}"
    )
    return Prompts(folder)


def make_agent(prompts: Prompts, *, trials: int = 3, reflect: bool = True, limit: int = 3) -> Agent:
    """An agent for the tiny world."""
    return Agent(
        actor=CodeActor(),
        evaluator=SaysRight(),
        reflector=VerbalReflector(),
        memory=Memory(limit=limit),
        strategy=Strategy("test", trials, reflect),
        prompts=prompts,
        sampling=SAMPLING,  # type: ignore[arg-type]  # the keys are roles
        count_tokens=lambda text: len(text.split()),
        seed=7,
    )
