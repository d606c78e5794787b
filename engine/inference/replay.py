"""A model that gives the answers of a recorded run again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ConfigError, ReplayMismatch
from engine.inference import weights
from engine.inference.answers import room
from engine.inference.base import LanguageModel, ModelSpec, ModelStats, Tokenizer
from engine.inference.fake import RoughTokenizer
from engine.inference.tokenizer import ChatTokenizer
from engine.records import Completion, Prompt, Request, Tag
from engine.store import recorded_calls

UNKNOWN_CONTEXT = 1 << 20  # tokens


@dataclass(frozen=True)
class ReplayBackend:
    """Answers each call as the run did that is recorded in a directory.

    Attributes:
        run: The run's directory.
        strict: Whether the prompt must be the recorded one, and not only the call's tag.
    """

    run: str
    strict: bool = True

    def label(self, spec: ModelSpec) -> str:
        """The recorded run's hash."""
        return f"replay-of-{Path(self.run).resolve().name.rpartition('-')[2]}"

    def tokenizer(self, spec: ModelSpec) -> Tokenizer:
        """The model's own tokenizer where it is on this machine, else four characters are a token.

        Only the model's own cuts memory and prompts to a number of tokens exactly as in the recorded run.
        Raises RecordError or ConfigError when there is nothing to replay.
        """
        if next(recorded_calls(Path(self.run)), None) is None:
            raise ConfigError(f"backend.run: {self.run} holds no recorded call to replay")
        folder = weights.local(spec)
        if folder is None:
            return RoughTokenizer(spec.max_model_len or UNKNOWN_CONTEXT)
        return ChatTokenizer(folder, spec)

    def fingerprint(self, spec: ModelSpec) -> str:
        """The recorded run's name, which is a checksum of its configuration."""
        return f"replay:{Path(self.run).resolve().name}"

    def load(self, spec: ModelSpec, seed: int = 0) -> AbstractAsyncContextManager[LanguageModel]:
        """Read the recorded calls. Raises RecordError."""
        return self._serve(spec)

    @asynccontextmanager
    async def _serve(self, spec: ModelSpec) -> AsyncIterator[LanguageModel]:
        calls = {tag: (prompt, answer) for tag, prompt, answer in recorded_calls(Path(self.run))}
        yield ReplayModel(calls, self.tokenizer(spec), self.strict)


class ReplayModel:
    """Recorded answers by tag.

    Args:
        calls: Prompt and answer of every recorded call.
        tokenizer: Tells whether a call that is not in the record would have fitted the context.
        strict: Whether prompts must match.
    """

    def __init__(
        self, calls: dict[Tag, tuple[Prompt, Completion]], tokenizer: Tokenizer, strict: bool = True
    ) -> None:
        self._calls = calls
        self._tokenizer = tokenizer
        self._strict = strict

    async def complete(self, request: Request) -> Completion:
        """The recorded answer.

        Raises:
            ContextFull: The call is not in the record because its prompt did not fit.
            ReplayMismatch: The record lacks the call, or has it with another prompt.
        """
        await asyncio.sleep(0)
        tag = request.tag
        if tag not in self._calls:
            context = self._tokenizer.context_tokens
            room(self._tokenizer.count(request.prompt), request.sampling.max_tokens, context)
            raise ReplayMismatch(f"{_name(tag)}: the recorded run has no such call")
        prompt, answer = self._calls[tag]
        if self._strict and prompt != request.prompt:
            where = _difference(prompt, request.prompt)
            raise ReplayMismatch(
                f"{_name(tag)}: the prompt differs from the recorded one {where}; "
                "backend.strict=false answers all the same"
            )
        return answer

    def stats(self) -> ModelStats:
        """Nothing runs here."""
        return ModelStats()

    async def forget(self) -> None:
        """There is no cache."""


def _name(tag: Tag) -> str:
    return f"task {tag.task}, trial {tag.trial}, {tag.role}, step {tag.step}, sample {tag.sample}"


def _difference(recorded: Prompt, asked: Prompt) -> str:
    """Where two prompts part."""
    if isinstance(recorded, str) or isinstance(asked, str):
        recorded, asked = str(recorded), str(asked)
        return f"at character {_first_difference(recorded, asked)}"
    for number, (old, new) in enumerate(zip(recorded, asked, strict=False), 1):
        if old.role != new.role:
            return f"in turn {number}, whose role is {new.role} and was {old.role}"
        if old.content != new.content:
            return f"in turn {number} ({new.role}) at character {_first_difference(old.content, new.content)}"
    return f"in the number of turns, {len(asked)} and not {len(recorded)}"


def _first_difference(old: str, new: str) -> int:
    """Number of the first character that differs, from 0."""
    same = (number for number, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    return next(same, min(len(old), len(new)))
