"""The agent's own unit tests as evaluator (paper, section 4.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from engine.attempt import Attempt
from engine.errors import ConfigError, ContextFull
from engine.records import Verdict
from envs.base import ProgramSession, TestResult


@dataclass(frozen=True, slots=True)
class SelfTests:
    """Passes a program that holds all tests which the model wrote before it saw any program.

    The tests are written once per episode and used again by its later trials. A trial without a single
    valid test is not passed: nothing has been checked.

    Attributes:
        max_tests: Most tests used, in the order written (paper: 6; its published code: 1).
    """

    oracle: ClassVar[bool] = False
    templates: ClassVar[Mapping[str, Mapping[str, Any]]] = {"test_writer": {"max_tests": 6}}

    max_tests: int = 6

    def __post_init__(self) -> None:
        if self.max_tests < 1:
            raise ValueError(f"max_tests: must be 1 or more, got {self.max_tests}")

    async def judge(self, attempt: Attempt) -> Verdict:
        """Judge the program of this trial."""
        session = attempt.session
        if not isinstance(session, ProgramSession):
            raise ConfigError(
                "evaluator=self_tests: this environment's trials leave no program to test; choose another"
            )
        tests = _earlier_tests(attempt) or await self._write_tests(attempt, session)
        if not tests:
            return Verdict(False, 0.0, "No valid unit test could be written, so nothing was checked.")
        with attempt.environment_clock:
            results = await session.run_tests(tests)
        held = sum(result.passed for result in results)
        return Verdict(
            passed=held == len(results),
            score=held / len(results),
            feedback=_feedback(results),
            evidence={"tests": list(tests), "results": [asdict(result) for result in results]},
        )

    async def _write_tests(self, attempt: Attempt, session: ProgramSession) -> tuple[str, ...]:
        try:
            reply = await attempt.ask("test_writer", max_tests=self.max_tests)
        except ContextFull:
            return ()
        return session.parse_tests(reply.text)[: self.max_tests]


def _earlier_tests(attempt: Attempt) -> tuple[str, ...]:
    for trial in reversed(attempt.history):
        tests: Any = trial.verdict.evidence.get("tests")
        if tests:
            return tuple(tests)
    return ()


def _feedback(results: Sequence[TestResult]) -> str:
    passed = [result.test for result in results if result.passed]
    failed = [f"{result.test}  # {result.detail}" for result in results if not result.passed]
    return "\n".join(
        ["Tests that passed:", *(passed or ["(none)"]), "", "Tests that failed:", *(failed or ["(none)"])]
    )
