"""Runs a program against tests so that the program cannot forge its verdict."""

import compileall
import math
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from envs.sandbox import canary
from envs.sandbox.errors import SandboxFault, SandboxUnavailable
from envs.sandbox.jails import Kind
from envs.sandbox.pair import PairMaker
from envs.sandbox.report import Report, Result
from envs.sandbox.slots import Slots

_RANGES = {"memory_mb": (64, 1 << 20), "patience": (1, 100), "slots": (0, 64)}


@dataclass
class Sandbox:
    """A place for untrusted Python. Entering it proves the isolation, or refuses.

    Attributes:
        kind: "bwrap" isolates with bubblewrap. "unsafe" runs code with the rights of this process.
        memory_mb: Memory of a program, in MB, from 64 to 1048576: the address space of each of its processes,
            and what they have in use together.
        patience: Wall-clock seconds that a test may take for each second of CPU time that it is allowed, so
            that a busy machine is not mistaken for a slow program. From 1 to 100.
        slots: Runs at a time, at most 64; 0 for one per CPU that this process may use.
    """

    kind: Kind = "bwrap"
    memory_mb: int = 512
    patience: float = 3.0
    slots: int = 0

    _slots: Slots = field(init=False, repr=False, compare=False)
    _pairs: PairMaker = field(init=False, repr=False, compare=False)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: must be bwrap or unsafe, got {self.kind!r}")
        for name, (low, high) in _RANGES.items():
            if not low <= (value := getattr(self, name)) <= high:
                raise ValueError(f"{name}: must be from {low} to {high}, got {value}")

    async def __aenter__(self) -> Self:
        """Lay out the jail's own files and try it. Raises SandboxUnavailable."""
        stage = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-")))
        try:
            _lay_out(stage)
            self._pairs = PairMaker(self.kind, stage, self.memory_mb)
            self._slots = Slots(self.slots or min(len(os.sched_getaffinity(0)), _RANGES["slots"][1]))
            if self.kind != "unsafe":
                await self._prove()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def run(
        self,
        program: str,
        tests: Sequence[str],
        *,
        names: Sequence[str],
        seconds: float = 5.0,
        priority: int = 0,
    ) -> Report:
        """Load the program afresh for each test and run the test against it.

        Args:
            program: Untrusted source. It sees no test and no expected value.
            tests: Sources that raise unless all is well. They see what `names` says of the program. One that
                has called none of it has failed.
            names: The program's functions that the tests may call.
            seconds: CPU time for each test, rounded up to whole seconds.
            priority: Of the runs that wait for a slot, the one with the lowest is next.

        Returns:
            A result for every test, in order. One that hangs or dies does not touch the others.

        Raises:
            SandboxFault: A jail did not start.
        """
        limit = math.ceil(seconds)
        results: list[Result] = []
        async with self._slots.hold(priority) as slot:
            began = time.monotonic()
            while len(results) < len(tests):
                rest = list(tests[len(results) :])
                work = {"program": program, "names": list(names), "tests": rest, "seconds": limit}
                async with self._pairs.open(slot, work) as pair:
                    results += await pair.results(len(rest), limit * self.patience)
            return Report(tuple(results), time.monotonic() - began, self.kind)

    async def _prove(self) -> None:
        try:
            report = await self.run(canary.PROGRAM, canary.TESTS, names=[canary.NAME])
        except SandboxFault:
            why = await self._pairs.complaint()
            raise SandboxUnavailable(f"bubblewrap does not work here: {why}") from None
        ended = tuple(result.ended for result in report.results)
        if ended != canary.EXPECTED:
            raise SandboxUnavailable(f"bubblewrap does not isolate here: {report.results[0].detail or ended}")


def _lay_out(stage: Path) -> None:
    """Copy the jail's own code to where every uid can read it, compiled once."""
    stage.chmod(0o755)
    shutil.copytree(
        Path(__file__).parent / "jail", stage / "jail", ignore=shutil.ignore_patterns("__pycache__")
    )
    compileall.compile_dir(stage, quiet=1)
    for path in stage.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
