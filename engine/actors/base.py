"""The contract of an actor."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from engine.attempt import Attempt


class Actor(Protocol):
    """An agent loop: asks the model, acts in the world, until the world or the actor has had enough.

    Attributes:
        templates: The prompt templates that it asks for, each with an example of the variables that it gives
            besides those of every prompt. Prompts are tried with them before a model is loaded.
    """

    templates: ClassVar[Mapping[str, Mapping[str, Any]]]

    async def play(self, attempt: Attempt) -> None:
        """Play one trial. Sets `attempt.ending` when it stops early. Raises ContextFull."""
        ...
