"""What a run in the sandbox says."""

from dataclasses import dataclass
from typing import Literal

Ended = Literal["passed", "failed", "error", "timeout", "died"]
"""How a test ended: it held, an assertion did not, something was raised, a limit of time was hit, or the
program or the test ended its own process."""


@dataclass(frozen=True, slots=True)
class Result:
    """One test's result.

    Attributes:
        ended: How it ended.
        detail: What came out instead; empty for a pass.
        cpu_s: CPU seconds that the program used; 0 where it was stopped from outside.
    """

    ended: Ended
    detail: str = ""
    cpu_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the judge said that the test holds."""
        return self.ended == "passed"


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one run, in the order of its tests.

    Attributes:
        results: One per test.
        wall_s: Seconds from the start of the jails to the last result.
        sandbox: How the run was isolated.
    """

    results: tuple[Result, ...]
    wall_s: float
    sandbox: str

    @property
    def cpu_s(self) -> float:
        """CPU seconds that the program used in all tests together."""
        return sum(result.cpu_s for result in self.results)
