"""One judge and one candidate, each in its own jail, joined by a socket that only they have."""

import asyncio
import json
import os
import socket
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, get_args

from envs.sandbox import seccomp, tree
from envs.sandbox.errors import SandboxFault
from envs.sandbox.jails import Kind, command
from envs.sandbox.report import Ended, Result

_START_S = 60.0  # far more than jails need, even on a machine that is very busy
_END_S = 10.0
_LINE_BYTES = 1 << 16
_ENDED: tuple[Ended, ...] = get_args(Ended)


class Pair:
    """The report of a judge at work."""

    def __init__(self, report: asyncio.StreamReader) -> None:
        self._report = report

    async def results(self, tests: int, timeout_s: float) -> list[Result]:
        """Results of the first tests, up to one that ends or hangs the pair.

        Args:
            tests: How many there are.
            timeout_s: Wall-clock seconds for each.

        Raises:
            SandboxFault: A jail did not start. Nothing untrusted has run.
        """
        try:
            ready = await self._line(_START_S)
        except TimeoutError:
            ready = {}
        if ready.get("ready") is not True:
            raise SandboxFault("a jail did not start; the machine may be short of memory or processes")
        results: list[Result] = []
        while len(results) < tests:
            try:
                line = await self._line(timeout_s)
            except TimeoutError:
                return [*results, Result("timeout", f"timed out after {timeout_s:g} s")]
            results.append(_result(line))
            if line.get("last") is not False:
                break
        return results

    async def _line(self, timeout_s: float) -> dict[str, Any]:
        try:
            message = json.loads(await asyncio.wait_for(self._report.readline(), timeout_s))
        except ValueError:  # the end of the report, a line that is too long, or no JSON
            return {}
        return message if isinstance(message, dict) else {}


def _result(line: dict[str, Any]) -> Result:
    """A line of the report. A judge that has fallen silent, or says anything odd, has passed nothing."""
    ended, detail, cpu_s = line.get("ended"), line.get("detail"), line.get("cpu_s")
    if ended in _ENDED and isinstance(detail, str) and isinstance(cpu_s, float):
        return Result(ended, detail, cpu_s)
    return Result("died", "the test ended its own process")


@dataclass(frozen=True, slots=True)
class PairMaker:
    """Starts pairs.

    Attributes:
        kind: How they are isolated.
        stage: Folder with the package `jail`, readable by everyone.
        memory_mb: Address space of each process, and memory in use by a jail as a whole.
    """

    kind: Kind
    stage: Path
    memory_mb: int

    @asynccontextmanager
    async def open(self, slot: int, work: dict[str, Any]) -> AsyncIterator[Pair]:
        """Start a pair on its work; leaving kills it with everything that it has started.

        Args:
            slot: Number from 0 that no other pair of this process has at the moment.
            work: What the judge reads: "program", "names", "tests", and "seconds" of CPU time for each test.
        """
        seconds = work["seconds"]
        async with AsyncExitStack() as stack:
            task = stack.enter_context(_file(json.dumps(work).encode()))
            judge_end, candidate_end = map(stack.enter_context, socket.socketpair())
            report, sink = await _pipe(stack)
            judge_s = seconds * len(work["tests"]) + 1
            await self._start(stack, "judge", 2 * slot, judge_end, judge_s, stdin=task, stdout=sink)
            await self._start(
                stack, "candidate", 2 * slot + 1, candidate_end, seconds, stdin=DEVNULL, stdout=DEVNULL
            )
            sink.close()
            yield Pair(report)

    async def complaint(self) -> str:
        """What a jail that does not start has to say, on one line."""
        argv, env = command(self.kind, self.stage, "candidate", 0, ["0", "1", "1", str(self.memory_mb)])
        process = await asyncio.create_subprocess_exec(
            *argv, env=env, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
        try:
            _, stderr = await asyncio.wait_for(process.communicate(), _START_S)
        except TimeoutError:
            await _kill(process, jailed=True)
            return "it hangs"
        return (stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"])[-1]

    async def _start(
        self, stack: AsyncExitStack, module: str, number: int, wire: socket.socket, cpu_s: int, **streams: Any
    ) -> None:
        jailed = self.kind != "unsafe"
        arguments = [str(wire.fileno()), str(int(jailed)), str(cpu_s), str(self.memory_mb)]
        descriptors, system_calls = [wire.fileno()], None
        if jailed and (filter_ := seccomp.program()):
            system_calls = stack.enter_context(_file(filter_)).fileno()
            descriptors.append(system_calls)
        argv, env = command(self.kind, self.stage, module, number, arguments, system_calls)
        process = await asyncio.create_subprocess_exec(
            *argv, env=env, pass_fds=descriptors, stderr=DEVNULL, **streams
        )
        stack.push_async_callback(_kill, process, jailed=jailed)
        if jailed:
            stack.callback(asyncio.create_task(tree.limit_memory(process.pid, self.memory_mb)).cancel)
        wire.close()  # so that each side notices when the other is gone


@contextmanager
def _file(content: bytes) -> Iterator[IO[bytes]]:
    """A file without a name, to be read from its start."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


async def _pipe(stack: AsyncExitStack) -> tuple[asyncio.StreamReader, BinaryIO]:
    source, sink = os.pipe()
    writer = stack.enter_context(os.fdopen(sink, "wb"))
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb")
    )
    stack.callback(transport.close)
    return reader, writer


async def _kill(process: asyncio.subprocess.Process, *, jailed: bool) -> None:
    """End a jail and wait until nothing of it is left.

    The jail's first process is the one to kill: all others of its PID namespace go with it before bubblewrap
    can reap it, and no zombie is left to an init that may not care.
    """
    if process.returncode is None:
        below = tree.children(process.pid)
        tree.kill(below if jailed and below else [*below, process.pid])
    try:
        await asyncio.wait_for(process.wait(), _END_S)
    except TimeoutError:
        tree.kill([process.pid])
        await process.wait()
