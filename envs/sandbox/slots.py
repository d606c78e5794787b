"""Places in a queue that is served by priority."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """So many numbered places, each held by one at a time. Whoever waits with the lowest priority is next."""

    def __init__(self, count: int) -> None:
        self._free = list(range(count))
        self._waiting: list[tuple[int, int, asyncio.Future[int]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def hold(self, priority: int) -> AsyncIterator[int]:
        """Wait for a place and hold it. Among equals, the first to come is the first to be served."""
        slot = self._free.pop() if self._free else await self._wait(priority)
        try:
            yield slot
        finally:
            self._pass_on(slot)

    async def _wait(self, priority: int) -> int:
        served: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrivals), served))
        try:
            return await served
        except asyncio.CancelledError:
            if not served.cancelled():  # served and cancelled in the same moment
                self._pass_on(served.result())
            raise

    def _pass_on(self, slot: int) -> None:
        while self._waiting:
            *_, served = heapq.heappop(self._waiting)
            if not served.done():
                served.set_result(slot)
                return
        self._free.append(slot)
