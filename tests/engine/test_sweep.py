import asyncio
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.loop import Agent
from engine.profiling.tally import Tally
from engine.records import Completion, Request
from engine.store import Store, read
from engine.sweep import sweep
from envs.base import Outcome, Score, Task
from tests.support import GuessEnv, ScriptedModel, make_agent, write_pack


async def play(
    folder: Path, agent: Agent, model: ScriptedModel, size: int = 6, max_episodes: int = 4
) -> tuple[set[tuple[str, int]], Tally, GuessEnv]:
    environment = GuessEnv(size)
    store = Store.open(folder, environment.tasks())
    store.begin({})
    tally = Tally(model, store.progress(), agent.strategy.trials)
    try:
        await sweep(agent, environment, environment.tasks(), store, tally, max_episodes)
    finally:
        store.close()
    return {(trial.task, trial.number) for trial in read(folder).trials}, tally, environment


def odd_tasks_pass_second(request: Request) -> str:
    odd = int(request.tag.task[1:]) % 2
    return "right" if odd and request.tag.trial == 2 else "wrong"


EXPECTED = {(f"g{task}", trial) for task in range(6) for trial in ((1, 2) if task % 2 else (1, 2, 3))}


async def test_every_episode_is_played_to_its_end(tmp_path: Path) -> None:
    agent = make_agent(write_pack(tmp_path / "pack"))
    trials, tally, _ = await play(tmp_path / "run", agent, ScriptedModel(odd_tasks_pass_second))
    assert trials == EXPECTED
    now = tally.snapshot()
    assert (now.over, now.under_way, now.errors, now.episodes) == (6, 0, 0, 6)
    assert dict(now.played) == {1: 6, 2: 6, 3: 3}
    assert now.left_s == 0


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_no_more_episodes_are_under_way_than_allowed(tmp_path: Path, limit: int) -> None:
    model = ScriptedModel(lambda request: "right", pause_s=0.05)
    await play(tmp_path / "run", make_agent(write_pack(tmp_path / "pack")), model, size=9, max_episodes=limit)
    assert model.most_running == min(limit, 9)


async def test_nobody_waits_for_anybody(tmp_path: Path) -> None:
    """A task's third trial is asked for while another's first is still to come."""
    model = ScriptedModel(lambda request: "wrong")
    await play(tmp_path / "run", make_agent(write_pack(tmp_path / "pack")), model, size=9, max_episodes=2)
    order = [(request.tag.task, request.tag.trial) for request in model.requests]
    assert order.index(("g0", 3)) < order.index(("g2", 1)) < order.index(("g8", 1))


async def test_an_error_costs_only_its_own_episode_and_is_tried_again(tmp_path: Path) -> None:
    def broken(request: Request) -> str:
        if request.tag.task == "g2" and request.tag.trial == 2:
            raise KeyError("boom")
        return "wrong"

    agent = make_agent(write_pack(tmp_path / "pack"))
    _, tally, _ = await play(tmp_path / "run", agent, ScriptedModel(broken))
    record = read(tmp_path / "run")
    assert tally.snapshot().errors == 1
    assert {row.task: row.error for row in record.episodes if row.status == "error"} == {
        "g2": "KeyError: 'boom'"
    }
    assert len(record.trials) == 5 * 3 + 1
    model = ScriptedModel(lambda request: "wrong")
    trials, _, _ = await play(tmp_path / "run", agent, model)
    assert len(trials) == 6 * 3
    assert {(request.tag.task, request.tag.trial) for request in model.requests} == {("g2", 2), ("g2", 3)}


async def test_a_dead_model_stops_the_sweep_with_its_own_error(tmp_path: Path) -> None:
    def dies(request: Request) -> str:
        if request.tag.trial == 2:
            raise ModelError("the engine died")
        return "wrong"

    agent = make_agent(write_pack(tmp_path / "pack"))
    with pytest.raises(ModelError, match="the engine died"):
        await play(tmp_path / "run", agent, ScriptedModel(dies))
    assert all(trial.number == 1 for trial in read(tmp_path / "run").trials)
    trials, _, _ = await play(tmp_path / "run", agent, ScriptedModel(odd_tasks_pass_second))
    assert trials == EXPECTED


async def test_a_finished_sweep_asks_and_opens_nothing(tmp_path: Path) -> None:
    agent = make_agent(write_pack(tmp_path / "pack"))
    await play(tmp_path / "run", agent, ScriptedModel(odd_tasks_pass_second))
    model = ScriptedModel(odd_tasks_pass_second)
    _, _, environment = await play(tmp_path / "run", agent, model)
    assert model.requests == []
    assert environment.opened == []
    assert environment.scored == []


async def test_an_error_that_stops_everything_is_not_hidden_by_one_that_does_not(tmp_path: Path) -> None:
    """Score and note are asked for together; here the one fails, and the other while it is called off."""

    class BrokenEnv(GuessEnv):
        async def score(self, task: Task, outcome: Outcome) -> Score:
            raise KeyError("an ordinary mistake")

    class DyingModel(ScriptedModel):
        async def complete(self, request: Request) -> Completion:
            if request.tag.role != "reflector":
                return await super().complete(request)
            try:
                await asyncio.sleep(60)
            finally:
                raise ModelError("the engine died")

    agent = make_agent(write_pack(tmp_path / "pack"))
    environment = BrokenEnv(1)
    store = Store.open(tmp_path / "run", environment.tasks())
    store.begin({})
    tally = Tally(DyingModel(lambda request: "wrong"), store.progress(), 3)
    with pytest.raises(ModelError, match="the engine died"):
        await sweep(agent, environment, environment.tasks(), store, tally, 1)
    store.close()
