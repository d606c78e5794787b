"""Many episodes at once: one coroutine each, no barriers, oldest first."""

import asyncio
from collections.abc import Sequence

from engine.errors import ConfigError, ModelError, PromptError, RecordError, ReplayMismatch
from engine.loop import Agent, is_over, play_trial
from engine.profiling.tally import Tally
from engine.store import Store
from envs.base import Environment, EnvironmentFault, Task

_FATAL = (ConfigError, ModelError, PromptError, RecordError, ReplayMismatch, EnvironmentFault)
"""What no other episode would survive either. Anything else costs its own episode only."""


async def sweep(
    agent: Agent,
    environment: Environment,
    tasks: Sequence[Task],
    store: Store,
    tally: Tally,
    max_episodes: int,
) -> None:
    """Play every episode that is not over, and record each trial before the next one begins.

    Args:
        agent: Who plays.
        environment: Where; entered already.
        tasks: All tasks of the sweep, in order; an episode's place is its priority.
        store: The run's record.
        tally: The model, counted.
        max_episodes: Most episodes under way at once.

    Raises:
        ReflexionError, EnvironmentFault: The sweep cannot go on. What is recorded stays.
    """
    still_open = store.open_tasks()
    places = asyncio.Semaphore(max_episodes)

    async def episode(task: Task, priority: int) -> None:
        try:
            await _play_episode(agent, environment, task, priority, store, tally)
        finally:
            places.release()

    try:
        async with asyncio.TaskGroup() as episodes:
            for priority, task in enumerate(tasks):
                if task.id in still_open:
                    await places.acquire()
                    episodes.create_task(episode(task, priority))
    except BaseExceptionGroup as errors:
        raise _cause(errors) from errors


async def _play_episode(
    agent: Agent, environment: Environment, task: Task, priority: int, store: Store, tally: Tally
) -> None:
    history = list(await store.history(task.id))
    tally.begin(task.id, len(history))
    try:
        while not is_over(history, agent.strategy):
            trial = await play_trial(agent, environment, tally, task, history, priority)
            history.append(trial)
            await store.commit(trial, over=is_over(history, agent.strategy))
            tally.add(trial)
    except Exception as errors:
        error = _cause(errors)
        if isinstance(error, _FATAL):
            raise error from errors
        await store.fail(task.id, error)
        tally.end(task.id, error=True)
    else:
        tally.end(task.id)


def _cause(error: BaseException) -> BaseException:
    """The error that counts in a group of errors: one that stops the sweep, or else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    causes = [_cause(part) for part in error.exceptions]
    return next((cause for cause in causes if isinstance(cause, _FATAL)), causes[0])
