"""The contract of an evaluator."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from engine.attempt import Attempt
from engine.records import Verdict


class Evaluator(Protocol):
    """Judges a played trial from what the agent itself could know.

    Attributes:
        oracle: Whether the verdict uses ground truth; a run with an oracle says so in its title line.
        templates: The prompt templates that it asks for, as an actor's.
    """

    oracle: ClassVar[bool]
    templates: ClassVar[Mapping[str, Mapping[str, Any]]]

    async def judge(self, attempt: Attempt) -> Verdict:
        """Judge a trial while its world is still open."""
        ...
