"""Programming: one reply is the whole program (paper, section 4.3)."""

from dataclasses import dataclass

from engine.attempt import Attempt


@dataclass(frozen=True, slots=True)
class CodeActor:
    """Asks once and hands the reply to the world, which takes the program out of it."""

    async def play(self, attempt: Attempt) -> None:
        """Play one trial."""
        reply = await attempt.ask("actor")
        await attempt.act(reply.text, thought=reply.reasoning)
