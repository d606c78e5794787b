"""The contract of a reflector."""

from typing import Protocol

from engine.attempt import Attempt
from engine.records import Note, Verdict


class Reflector(Protocol):
    """Turns a failed trial into something the next one can use."""

    async def reflect(self, attempt: Attempt, verdict: Verdict) -> Note | None:
        """Write a note about a failed trial; None when there is nothing to say."""
        ...
