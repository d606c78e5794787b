"""The processes of a jail, seen from outside: how much memory they have, and how they end."""

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_PERIOD_S = 0.05  # what sixteen processes can fill in that time is still bearable
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


async def limit_memory(pid: int, memory_mb: int) -> None:
    """Kill everything below a process once it has more memory in use, taken together, than it may."""
    while memory_bytes(pid) <= memory_mb << 20:  # noqa: ASYNC110 (the kernel has no event to wait for)
        await asyncio.sleep(_PERIOD_S)
    kill(children(pid))


def memory_bytes(pid: int) -> int:
    """Resident memory of all descendants of a process. Pages that they share count for each."""
    return sum(_resident_bytes(child) + memory_bytes(child) for child in children(pid))


def children(pid: int) -> list[int]:
    """The processes that a process, in any of its threads, has started or adopted."""
    return list(_children(pid))


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):  # it may end while we look
        for thread in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (thread / "children").read_text().split())


def _resident_bytes(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def kill(pids: Sequence[int]) -> None:
    """Kill processes of ours. Process.kill would poll first, and reap what asyncio waits for."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
