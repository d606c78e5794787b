import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.sandbox.slots import Slots


async def served(slots: Slots, priority: int, order: list[int]) -> None:
    async with slots.hold(priority):
        order.append(priority)
        await asyncio.sleep(0)


@given(st.lists(st.integers(0, 5)), st.integers(1, 3))
def test_the_lowest_priority_is_next(priorities: list[int], count: int) -> None:
    async def run() -> list[int]:
        slots = Slots(count)
        order: list[int] = []
        await asyncio.gather(*(served(slots, priority, order) for priority in priorities))
        return order

    expected = priorities[:count] + sorted(priorities[count:])  # the first ones find a free slot
    assert asyncio.run(run()) == expected


async def test_among_equals_the_first_to_come_is_served_first() -> None:
    slots, order = Slots(1), []

    async def take(name: str) -> None:
        async with slots.hold(7):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*map(take, "abcde"))
    assert order == [*"abcde"]


async def test_no_slot_is_held_twice_or_lost_whoever_is_cancelled_and_when() -> None:
    slots, held = Slots(3), set[int]()

    async def take(priority: int) -> None:
        async with slots.hold(priority) as slot:
            assert slot not in held
            held.add(slot)
            try:
                await asyncio.sleep(0)
            finally:
                held.remove(slot)

    tasks = [asyncio.create_task(take(number % 7)) for number in range(200)]
    for task in tasks[::3]:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with slots.hold(0) as a, slots.hold(0) as b, slots.hold(0) as c:
        assert {a, b, c} == {0, 1, 2}
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(take(0), 0.01)


async def test_one_that_is_cancelled_in_the_moment_it_is_served_passes_its_slot_on() -> None:
    slots, order = Slots(1), list[int]()
    async with slots.hold(0):
        first = asyncio.create_task(served(slots, 1, order))
        second = asyncio.create_task(served(slots, 2, order))
        await asyncio.sleep(0)
    first.cancel()  # its future has the slot already
    await asyncio.gather(first, second, return_exceptions=True)
    assert order == [2]
