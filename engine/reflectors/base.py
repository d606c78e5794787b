"""The contract of a reflector."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from engine.attempt import Attempt
from engine.records import Note, Verdict


class Reflector(Protocol):
    """Turns a failed trial into something the next one can use.

    Attributes:
        templates: The prompt templates that it asks for, as an actor's.
    """

    templates: ClassVar[Mapping[str, Mapping[str, Any]]]

    async def reflect(self, attempt: Attempt, verdict: Verdict) -> Note | None:
        """Write a note about a failed trial; None when there is nothing to say."""
        ...
