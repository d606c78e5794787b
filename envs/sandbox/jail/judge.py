"""The judge's jail: runs the tests and reports on them. Its report is the only verdict.

The judge reads its work from its standard input and reports on what was its standard output. The candidate,
in a jail of its own, has neither.
"""

from __future__ import annotations

import json
import os
import sys

from . import limits
from .remote import Candidate, CandidateLost
from .wire import Wire, show_error

TYPE_CHECKING = False  # importing typing for it would be a tenth of the start-up time
if TYPE_CHECKING:
    from typing import Any


NEVER_CALLED = "the test never called the function"
"""Such a test has shown nothing, whatever it asserts."""


def main() -> None:
    """Run the tests in turn, up to one that costs us the program.

    Arguments: the wire's file descriptor, whether this is a jail (0 or 1), CPU seconds, memory MB.
    """
    fd, confined, cpu_s, memory_mb = map(int, sys.argv[1:])
    limits.apply(cpu_s, memory_mb, confined=bool(confined))
    report = os.dup(1)
    os.dup2(2, 1)  # what a test prints goes nowhere
    work = json.loads(sys.stdin.buffer.read())
    wire = Wire(fd, fd)
    wire.receive()  # the candidate's jail is up; nothing untrusted has run
    tell(report, {"ready": True})
    for test in work["tests"]:
        candidate = Candidate(wire, work["seconds"])
        ended, detail = run_test(candidate, work["program"], work["names"], test)
        lost = bool(candidate.lost)
        tell(report, {"ended": ended, "detail": detail, "cpu_s": candidate.cpu_s, "last": lost})
        if lost:
            break


def tell(report: int, message: dict[str, Any]) -> None:
    """Write one line of the report."""
    os.write(report, json.dumps(message).encode() + b"\n")


def run_test(candidate: Candidate, program: str, names: list[str], test: str) -> tuple[str, str]:
    """How one test ended ("passed", "failed", "error", "timeout", "died"), and what there is to say."""
    try:
        seed_random(test)
        candidate.load(program)
        exec(compile(test, "<test>", "exec"), namespace(candidate, names))
        ended, detail = ("passed", "") if candidate.called else ("failed", NEVER_CALLED)
    except CandidateLost:
        ended, detail = "died", candidate.lost
    except AssertionError as error:
        ended, detail = "failed", candidate.last or show_error(error)
    except BaseException as error:  # a test may raise anything; none of it is a pass
        ended, detail = "error", show_error(error)
    if not candidate.lost:
        candidate.close()
    if candidate.lost and ended in ("passed", "died"):
        return "timeout" if candidate.out_of_time else "died", candidate.lost
    return ended, detail


def seed_random(test: str) -> None:
    """See that a test that draws random numbers draws the same ones every time."""
    if "random" in test:
        import random

        random.seed(0)


def namespace(candidate: Candidate, names: list[str]) -> dict[str, Any]:
    """The globals of one test: the program's functions, by name."""

    def remote(name: str) -> Any:
        return lambda *args, **kwargs: candidate.call(name, args, kwargs)

    return {"__name__": "test", **{name: remote(name) for name in names}}
