"""The contract of an actor."""

from typing import Protocol

from engine.attempt import Attempt


class Actor(Protocol):
    """An agent loop: asks the model, acts in the world, until the world or the actor has had enough."""

    async def play(self, attempt: Attempt) -> None:
        """Play one trial. Sets `attempt.ending` when it stops early. Raises ContextFull."""
        ...
