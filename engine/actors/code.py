"""Programming: one reply is the whole program (paper, section 4.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.attempt import Attempt


@dataclass(frozen=True, slots=True)
class CodeActor:
    """Asks once and hands the reply to the world, which takes the program out of it."""

    templates: ClassVar[Mapping[str, Mapping[str, Any]]] = {"actor": {}}

    async def play(self, attempt: Attempt) -> None:
        """Play one trial."""
        reply = await attempt.ask("actor")
        await attempt.act(reply.text, thought=reply.reasoning)
