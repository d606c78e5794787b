from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import ContextFull, PromptError
from engine.loop import Strategy, is_over, play_trial
from engine.records import Request, Trial
from tests.support import GuessEnv, ScriptedModel, make_agent, write_pack

TASK = GuessEnv().tasks()[1]


async def play(tmp_path: Path, model: ScriptedModel, **options: int | bool) -> tuple[list[Trial], GuessEnv]:
    environment = GuessEnv()
    agent = make_agent(write_pack(tmp_path), **options)  # type: ignore[arg-type]
    history: list[Trial] = []
    while not is_over(history, agent.strategy):
        history.append(await play_trial(agent, environment, model, TASK, history, priority=5))
    return history, environment


def fails_then_passes(request: Request) -> str:
    if request.tag.role == "reflector":
        return f"note {request.tag.trial}"
    return "right" if request.tag.trial == 3 else "1"


async def test_notes_of_failed_trials_are_in_the_next_prompts_and_nothing_else_is(tmp_path: Path) -> None:
    model = ScriptedModel(fails_then_passes)
    await play(tmp_path, model)
    actor = [request.prompt[-1].content for request in model.requests if request.tag.role == "actor"]  # type: ignore[union-attr]
    assert actor == ["guess 1", "NOTE note 1\nguess 1", "NOTE note 1\nNOTE note 2\nguess 1"]


async def test_memory_bounds_the_notes(tmp_path: Path) -> None:
    model = ScriptedModel(fails_then_passes)
    await play(tmp_path, model, limit=1)
    last = [request for request in model.requests if request.tag.role == "actor"][-1]
    assert last.prompt[-1].content == "NOTE note 2\nguess 1"  # type: ignore[union-attr]


async def test_the_verdict_stops_the_loop_and_the_score_does_not(tmp_path: Path) -> None:
    trials, environment = await play(tmp_path, ScriptedModel(fails_then_passes))
    assert [(trial.verdict.passed, trial.score.correct) for trial in trials] == [
        (False, True),
        (False, True),
        (True, False),
    ]
    assert environment.opened == ["g1"] * 3
    assert environment.scored == ["g1"] * 3


async def test_retry_asks_no_reflector(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "wrong")
    trials, _ = await play(tmp_path, model, reflect=False)
    assert {request.tag.role for request in model.requests} == {"actor"}
    assert [trial.note for trial in trials] == [None] * 3


async def test_no_note_is_asked_for_after_the_last_trial(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "wrong")
    trials, _ = await play(tmp_path, model)
    assert [trial.note is None for trial in trials] == [False, False, True]


async def test_tags_are_unique_and_seeds_depend_on_them_alone(tmp_path: Path) -> None:
    first, second = ScriptedModel(lambda request: "wrong"), ScriptedModel(lambda request: "wrong")
    await play(tmp_path, first)
    await play(tmp_path, second)
    assert len({request.tag for request in first.requests}) == len(first.requests)
    assert len({request.seed for request in first.requests}) == len(first.requests)
    assert [request.seed for request in first.requests] == [request.seed for request in second.requests]
    assert {request.priority for request in first.requests} == {5}


async def test_a_prompt_that_does_not_fit_ends_the_trial_not_the_episode(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        if request.tag.role == "actor" and request.tag.trial == 1:
            raise ContextFull("prompt too long")
        return "note" if request.tag.role == "reflector" else "right"

    trials, _ = await play(tmp_path, ScriptedModel(answer))
    assert [trial.trajectory.ending for trial in trials] == ["context_full", "finished"]
    assert not trials[0].verdict.passed


async def test_everything_is_in_the_record(tmp_path: Path) -> None:
    trials, _ = await play(tmp_path, ScriptedModel(fails_then_passes))
    first = trials[0]
    assert [call.request.tag.role for call in first.calls] == ["actor", "reflector"]
    assert first.outcome == {"answer": "1"}
    assert first.note is not None
    assert first.note.text == "note 1"
    assert first.seconds >= first.model_s > 0
    assert first.environment_s > 0


def test_an_episode_is_over_when_passed_or_out_of_trials() -> None:
    assert not is_over([], Strategy("s", 1, True))


async def test_no_template_evaluator_or_reflector_can_see_a_score(tmp_path: Path) -> None:
    prompts = write_pack(tmp_path)
    (tmp_path / "actor.j2").write_text("x{% for past in history %}{{ past.score.correct }}{% endfor %}")
    agent = replace(make_agent(prompts), prompts=prompts)
    model = ScriptedModel(lambda request: "wrong")
    first = await play_trial(agent, GuessEnv(), model, TASK, [], priority=0)
    with pytest.raises(PromptError, match="has no attribute 'score'"):
        await play_trial(agent, GuessEnv(), model, TASK, [first], priority=0)
