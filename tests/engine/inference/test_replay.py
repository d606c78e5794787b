from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import store
from engine.errors import ConfigError, ContextFull, RecordError, ReplayMismatch
from engine.inference import replay
from engine.inference.base import ModelSpec
from engine.inference.replay import ReplayBackend
from engine.records import Completion, Message, Prompt, Sampling, Tag
from tests.engine.inference.conftest import Ask

SPEC = ModelSpec("nobody/nothing", max_model_len=100)
CHAT = (Message("system", "be good"), Message("user", "do it"))
PLAIN = Tag("b", 1, "actor", 1)
TURNS = Tag("a", 2, "reflector")


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def calls(run: Path) -> Iterator[tuple[Tag, Prompt, Completion]]:
        assert run == Path("runs/abc")
        yield TURNS, CHAT, Completion("a note", prompt_tokens=9)
        yield PLAIN, "go on", Completion("gone")

    monkeypatch.setattr(replay, "recorded_calls", calls)


async def test_recorded_calls_are_answered_as_they_were(ask: Ask) -> None:
    async with ReplayBackend("runs/abc").load(SPEC, seed=0) as model:
        assert await model.complete(ask(CHAT, tag=TURNS)) == Completion("a note", prompt_tokens=9)
        assert (await model.complete(ask("go on", tag=PLAIN))).text == "gone"


@pytest.mark.parametrize(
    ("prompt", "tag", "where"),
    [
        ((CHAT[0], Message("user", "do that")), TURNS, "in turn 2 (user) at character 3"),
        ((*CHAT, Message("assistant", "ok")), TURNS, "in the number of turns, 3 and not 2"),
        ((CHAT[0], Message("assistant", "do it")), TURNS, "in turn 2, whose role is assistant and was user"),
        ("go away", PLAIN, "at character 3"),
    ],
)
async def test_another_prompt_is_a_mismatch_only_when_strict(
    prompt: Prompt, tag: Tag, where: str, ask: Ask
) -> None:
    async with ReplayBackend("runs/abc").load(SPEC, seed=0) as model:
        with pytest.raises(ReplayMismatch) as caught:
            await model.complete(ask(prompt, tag=tag))
    assert f"task {tag.task}, trial {tag.trial}, {tag.role}" in str(caught.value)
    assert where in str(caught.value)
    async with ReplayBackend("runs/abc", strict=False).load(SPEC, seed=0) as model:
        assert (await model.complete(ask(prompt, tag=tag))).text


async def test_a_missing_call_is_a_mismatch_unless_it_could_not_have_been_made(ask: Ask) -> None:
    missing = Tag("a", 3, "actor", 4)
    async with ReplayBackend("runs/abc").load(SPEC, seed=0) as model:
        with pytest.raises(
            ReplayMismatch, match=r"task a, trial 3, actor, step 4, sample 0: .* no such call"
        ):
            await model.complete(ask("short", Sampling(max_tokens=64), tag=missing))
        with pytest.raises(ContextFull):
            await model.complete(ask("long" * 99, Sampling(max_tokens=64), tag=missing))


def test_a_run_that_cannot_be_replayed_is_found_with_its_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "recorded_calls", store.recorded_calls)
    with pytest.raises(RecordError, match=r"is no run directory"):
        ReplayBackend(str(tmp_path)).tokenizer(SPEC)
    monkeypatch.setattr(replay, "recorded_calls", lambda run: iter(()))
    with pytest.raises(ConfigError, match=r"backend\.run: .* holds no recorded call"):
        ReplayBackend(str(tmp_path)).tokenizer(SPEC)


def test_the_fingerprint_is_the_runs_name_wherever_it_lies() -> None:
    assert ReplayBackend("runs/abc").fingerprint(SPEC) == ReplayBackend("elsewhere/abc").fingerprint(SPEC)
