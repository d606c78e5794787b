"""Verbal self-reflection (paper, section 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.attempt import Attempt
from engine.errors import ContextFull
from engine.records import Note, Verdict


@dataclass(frozen=True, slots=True)
class VerbalReflector:
    """Asks the model what went wrong, given the trajectory, the feedback and the earlier notes."""

    templates: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "reflector": {"verdict": Verdict(False, 0.0, "what was wrong")}
    }

    async def reflect(self, attempt: Attempt, verdict: Verdict) -> Note | None:
        """Write a note; None when the model says nothing or the prompt does not fit its context."""
        try:
            reply = await attempt.ask("reflector", verdict=verdict)
        except ContextFull:
            return None
        text = reply.text.strip()
        return Note(attempt.number, text) if text else None
