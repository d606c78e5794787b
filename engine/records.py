"""Everything that is passed around and stored, as frozen values."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.base import Outcome, Score

Role = Literal["actor", "reflector", "evaluator", "test_writer"]
"""Who asked the model."""

Ending = Literal["finished", "step_limit", "context_full"]
"""Why a trajectory ended: by itself, at the step limit, or because the prompt no longer fits the context."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


Prompt = str | tuple[Message, ...]
"""Plain text to be continued, or chat turns. A last turn of the assistant's own is continued."""


@dataclass(frozen=True, slots=True)
class Regex:
    """The completion must match this regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The completion must be one of these texts."""

    options: tuple[str, ...]


Grammar = Regex | Choice


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        temperature: 0 is greedy.
        top_p: Nucleus mass, from 0 (exclusive) to 1.
        max_tokens: Most tokens to generate.
        stop: Texts that end the completion; they are not part of it.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise ValueError(f"temperature: must be 0 or more, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: must be above 0 and at most 1, got {self.top_p}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens: must be 1 or more, got {self.max_tokens}")


@dataclass(frozen=True, slots=True)
class Tag:
    """Which call this is. Unique within a run, so it also names the call in the record.

    Attributes:
        task: The task's id.
        trial: Number of the trial, from 1.
        role: Who asks.
        step: Number of the step, from 1; 0 outside the trajectory.
        sample: Number of the sample, from 0, when one question is asked several times.
    """

    task: str
    trial: int
    role: Role
    step: int = 0
    sample: int = 0

    def seed(self, base: int) -> int:
        """A 63-bit seed that depends on the tag and the sweep's seed alone, never on scheduling."""
        key = "\x1f".join(map(str, (base, self.task, self.trial, self.role, self.step, self.sample)))
        return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the model.

    Attributes:
        prompt: Chat turns or plain text.
        sampling: How tokens are drawn.
        tag: Which call this is.
        seed: Seed of this request's random draws.
        grammar: What the completion must look like, if anything.
        priority: Lower is served first when the model must choose: the episode's place in the sweep.
    """

    prompt: Prompt
    sampling: Sampling
    tag: Tag
    seed: int
    grammar: Grammar | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's answer.

    Attributes:
        text: The answer, without reasoning text and stop strings.
        reasoning: What a thinking model wrote before its answer.
        finish_reason: "stop" or "length".
        prompt_tokens: Tokens of the rendered prompt.
        cached_tokens: Those of them that the prefix cache had.
        generated_tokens: Tokens written, reasoning included.
        started_at: When the request was made, in seconds since the epoch.
        queued_s: Seconds until the model began to work on it.
        first_token_s: Seconds from the request to the first token.
        total_s: Seconds from the request to the last token.
    """

    text: str
    reasoning: str = ""
    finish_reason: Literal["stop", "length"] = "stop"
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    started_at: float = 0.0
    queued_s: float = 0.0
    first_token_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """A question and its answer, as recorded."""

    request: Request
    completion: Completion


@dataclass(frozen=True, slots=True)
class Step:
    """One action and what the world answered.

    Attributes:
        number: From 1.
        action: What the model wrote, as it went to the environment.
        observation: What the agent saw.
        valid: Whether the environment understood the action.
        thought: What the model wrote before the action, where the actor asks for it.
    """

    number: int
    action: str
    observation: str
    valid: bool = True
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The steps of one trial, in order, and why they ended."""

    steps: tuple[Step, ...]
    ending: Ending


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evaluator says of a trial. It drives the loop and may be wrong.

    Attributes:
        passed: The gate: whether the episode stops here.
        score: The evaluator's own measure from 0 to 1.
        feedback: What the reflector is told.
        evidence: What the verdict rests on, for the record and for later trials.
    """

    passed: bool
    score: float
    feedback: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Note:
    """What the reflector wrote after a failed trial.

    Attributes:
        trial: The trial it is about.
        text: The note, for the prompts of later trials.
    """

    trial: int
    text: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The complete record of one attempt. Written to the store in one transaction.

    Attributes:
        task: The task's id.
        number: From 1.
        trajectory: What happened.
        outcome: What the scorer was given.
        verdict: What the evaluator said.
        score: What the ground truth says.
        note: What was learnt for the next trial; None after a pass or where none was asked for.
        calls: Every model call of this trial, in order of completion.
        started_at: Seconds since the epoch.
        seconds: Wall time of the whole trial.
        model_s: Seconds during which at least one model call of this trial was under way.
        environment_s: Seconds spent in the environment: world, tests and scorer.
    """

    task: str
    number: int
    trajectory: Trajectory
    outcome: Outcome
    verdict: Verdict
    score: Score
    note: Note | None
    calls: tuple[Call, ...]
    started_at: float
    seconds: float
    model_s: float
    environment_s: float

    def as_known_to_agent(self) -> "PastTrial":
        """The trial without the ground truth."""
        return PastTrial(self.number, self.trajectory, self.outcome, self.verdict, self.note)


@dataclass(frozen=True, slots=True)
class PastTrial:
    """What an agent may know of its earlier trial: everything but the score."""

    number: int
    trajectory: Trajectory
    outcome: Outcome
    verdict: Verdict
    note: Note | None
