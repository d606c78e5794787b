"""The contract of an evaluator."""

from typing import ClassVar, Protocol

from engine.attempt import Attempt
from engine.records import Verdict


class Evaluator(Protocol):
    """Judges a played trial from what the agent itself could know.

    Attributes:
        oracle: Whether the verdict uses ground truth; a run with an oracle says so in its title line.
    """

    oracle: ClassVar[bool]

    async def judge(self, attempt: Attempt) -> Verdict:
        """Judge a trial while its world is still open."""
        ...
