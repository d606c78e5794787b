"""A model without weights: scripted answers, at once and always the same."""

import asyncio
import hashlib
import json
import time
import typing
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import ConfigError
from engine.inference.answers import room
from engine.inference.base import LanguageModel, ModelSpec, ModelStats
from engine.records import Choice, Completion, Prompt, Request, Role, Tag

CHARACTERS_PER_TOKEN = 4
DEFAULT_ANSWERS: dict[Role, str] = {
    "actor": "```python\ndef answer():\n    return None\n```",
    "reflector": "The attempt returned nothing. Next time, follow the task's examples.",
    "evaluator": "no",
    "test_writer": "assert answer() is None",
}

_Key = tuple[str, str | None, int | None, int | None]
_OPTIONAL: dict[str, type] = {"task": str, "trial": int, "step": int}
_FIRST = {"trial": 1, "step": 0}


@dataclass(frozen=True)
class FakeBackend:
    """Answers from a script, or one answer per role.

    A script is a JSONL file of objects {role, text} with, optionally, task, trial (from 1) and step (from 1;
    0 outside the trajectory). A call is answered by the line that fits it most closely: one that names the
    task before one that names the trial, and that before one that names the step; where no line fits, by the
    role's built-in answer.

    Attributes:
        script: Path of the script; None answers each role with one built-in text.
        context_tokens: Context in tokens; four characters are a token.
        latency_s: Seconds that each answer takes.
    """

    script: str | None = None
    context_tokens: int = 4096
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if self.context_tokens < 1:
            raise ValueError(f"context_tokens: must be at least 1, got {self.context_tokens}")
        if self.latency_s < 0:
            raise ValueError(f"latency_s: must be at least 0, got {self.latency_s}")

    def label(self, spec: ModelSpec) -> str:
        """No model."""
        return "fake"

    def tokenizer(self, spec: ModelSpec) -> "RoughTokenizer":
        """Counts four characters as one token. Raises ConfigError for a script that is malformed."""
        self._read_script()
        return RoughTokenizer(self.context_tokens)

    def fingerprint(self, spec: ModelSpec) -> str:
        """A checksum of the script. Raises ConfigError when there is no such file."""
        if self.script is None:
            return "fake"
        return f"fake-sha256:{hashlib.sha256(_read(Path(self.script)).encode()).hexdigest()}"

    def load(self, spec: ModelSpec, seed: int = 0) -> AbstractAsyncContextManager[LanguageModel]:
        """Read the script. Raises ConfigError, naming file and line, when it is malformed."""
        return self._serve()

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator[LanguageModel]:
        yield FakeModel(self._read_script().answer, self.context_tokens, self.latency_s)

    def _read_script(self) -> "Script":
        return Script({}) if self.script is None else Script.read(Path(self.script))


class FakeModel:
    """A model that a Python function answers for.

    Stop strings and limits hold as they do for a real model. A choice is kept to (the first option stands in
    for an answer that is none of them); a regular expression is not.

    Args:
        answer: Gives the text for a request; what it raises, the caller gets.
        context_tokens: Context in tokens; four characters are a token.
        latency_s: Seconds that each answer takes.
    """

    def __init__(
        self, answer: Callable[[Request], str], context_tokens: int = 4096, latency_s: float = 0.0
    ) -> None:
        self._answer = answer
        self._tokenizer = RoughTokenizer(context_tokens)
        self._latency = latency_s
        self._running = 0

    async def complete(self, request: Request) -> Completion:
        """Answer one request, after other tasks had their turn. Raises ContextFull."""
        started_at, start = time.time(), time.monotonic()
        prompt_tokens = self._tokenizer.count(request.prompt)
        limit = room(prompt_tokens, request.sampling.max_tokens, self._tokenizer.context_tokens)
        self._running += 1
        try:
            await asyncio.sleep(self._latency)
        finally:
            self._running -= 1
        text, finish_reason = _shape(self._answer(request), request, limit)
        total = time.monotonic() - start
        return Completion(
            text=text,
            finish_reason=finish_reason,
            prompt_tokens=prompt_tokens,
            generated_tokens=_tokens(len(text)),
            started_at=started_at,
            first_token_s=total,
            total_s=total,
        )

    def stats(self) -> ModelStats:
        """Requests under way."""
        return ModelStats(running=self._running)

    async def forget(self) -> None:
        """There is no cache."""


@dataclass(frozen=True, slots=True)
class RoughTokenizer:
    """Counts without a vocabulary: four characters are a token.

    Attributes:
        context_tokens: The most tokens that prompt and completion may have together.
    """

    context_tokens: int

    def count(self, prompt: Prompt) -> int:
        """Tokens of a text, or of all turns together."""
        if isinstance(prompt, str):
            return _tokens(len(prompt))
        return _tokens(sum(len(message.content) for message in prompt))


@dataclass(frozen=True, slots=True)
class Script:
    """Texts by role, task, trial and step, where None stands for any."""

    texts: dict[_Key, str]

    @classmethod
    def read(cls, path: Path) -> "Script":
        """Read a JSONL file. Raises ConfigError with file and line."""
        texts: dict[_Key, str] = {}
        for number, line in enumerate(_read(path).split("\n"), 1):
            if line.strip():
                try:
                    key, text = _parse(line)
                    if key in texts:
                        raise ValueError("answers the same call as an earlier line")
                except ValueError as error:
                    raise ConfigError(f"backend.script: {path}:{number}: {error}") from error
                texts[key] = text
        return cls(texts)

    def answer(self, request: Request) -> str:
        """The text of the line that fits most closely, or the role's built-in one."""
        if self.texts:
            for key in _keys(request.tag):
                if (text := self.texts.get(key)) is not None:
                    return text
        return DEFAULT_ANSWERS[request.tag.role]


def _keys(tag: Tag) -> list[_Key]:
    """Every key that fits a call, the closest first."""
    return [
        (tag.role, task, trial, step)
        for task in (tag.task, None)
        for trial in (tag.trial, None)
        for step in (tag.step, None)
    ]


def _parse(line: str) -> tuple[_Key, str]:
    """One line of a script. Raises ValueError saying what is wrong with it."""
    try:
        entry: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from error
    if not isinstance(entry, dict):
        raise ValueError("must be an object {role, text}")
    roles = typing.get_args(Role)
    if entry.get("role") not in roles:
        raise ValueError(f"role: must be one of {', '.join(roles)}, got {entry.get('role')!r:.80}")
    if not isinstance(entry.get("text"), str):
        raise ValueError(f"text: must be a text, got {entry.get('text')!r:.80}")
    for name, value in entry.items():
        if name in ("role", "text"):
            continue
        if name not in _OPTIONAL:
            raise ValueError(f"{name}: unknown; there are role, text, {', '.join(_OPTIONAL)}")
        if value is not None and type(value) is not _OPTIONAL[name]:
            raise ValueError(f"{name}: must be {_OPTIONAL[name].__name__}, got {value!r:.80}")
        if isinstance(value, int) and value < _FIRST[name]:
            raise ValueError(f"{name}: must be {_FIRST[name]} or more, got {value}")
    return (entry["role"], entry.get("task"), entry.get("trial"), entry.get("step")), entry["text"]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"backend.script: cannot read {path}: {error}") from error


def _shape(text: str, request: Request, limit: int) -> tuple[str, Literal["stop", "length"]]:
    """What of a text a real model could have given, and why it ended there."""
    if isinstance(request.grammar, Choice) and text not in request.grammar.options:
        text = request.grammar.options[0]
    for stop in request.sampling.stop:
        text = text.partition(stop)[0]
    if _tokens(len(text)) > limit:
        return text[: limit * CHARACTERS_PER_TOKEN], "length"
    return text, "stop"


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
