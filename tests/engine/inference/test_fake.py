import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError, ContextFull
from engine.inference.base import ModelSpec
from engine.inference.fake import DEFAULT_ANSWERS, FakeBackend, FakeModel
from engine.records import Choice, Message, Sampling, Tag
from tests.engine.inference.conftest import Ask

SPEC = ModelSpec("fake")


def write(folder: Path, *entries: Any) -> str:
    path = folder / "script.jsonl"
    path.write_text("\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries))
    return str(path)


async def test_every_role_has_an_answer_without_a_script(ask: Ask) -> None:
    async with FakeBackend().load(SPEC, seed=0) as model:
        for role, text in DEFAULT_ANSWERS.items():
            assert (await model.complete(ask(tag=Tag("t", 1, role)))).text == text


async def test_the_line_that_fits_most_closely_answers(tmp_path: Path, ask: Ask) -> None:
    script = write(
        tmp_path,
        {"role": "actor", "text": "any"},
        {"role": "actor", "step": 2, "text": "step"},
        {"role": "actor", "trial": 2, "text": "trial"},
        {"role": "actor", "task": "a", "text": "task"},
        {"role": "actor", "task": "a", "trial": 2, "step": 2, "text": "all"},
    )
    expected = {
        ("b", 1, 1): "any",
        ("b", 1, 2): "step",
        ("b", 2, 2): "trial",
        ("a", 1, 2): "task",
        ("a", 2, 2): "all",
    }
    async with FakeBackend(script=script).load(SPEC, seed=0) as model:
        for (task, trial, step), text in expected.items():
            assert (await model.complete(ask(tag=Tag(task, trial, "actor", step)))).text == text
        other = await model.complete(ask(tag=Tag("a", 1, "reflector")))
        assert other.text == DEFAULT_ANSWERS["reflector"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ('"text"', "must be an object"),
        ({"role": "critic", "text": "x"}, "role: must be one of actor, reflector, evaluator, test_writer"),
        ({"role": "actor"}, "text: must be a text"),
        ({"role": "actor", "text": "x", "trail": 1}, "trail: unknown"),
        ({"role": "actor", "text": "x", "trial": "1"}, "trial: must be int, got '1'"),
        ({"role": "actor", "text": "again"}, "answers the same call"),
        ({"role": "actor", "text": "x", "trial": 0}, "trial: must be 1 or more, got 0"),
        ({"role": "actor", "text": "x", "trial": True}, "trial: must be int, got True"),
        ({"role": "actor", "text": "x", "step": -1}, "step: must be 0 or more, got -1"),
        ("[" * 100_000, "not valid JSON"),
        ('{"role": "actor", "text": ' + "1" * 5000 + "}", "not valid JSON"),
    ],
)
async def test_a_malformed_line_is_named(tmp_path: Path, line: Any, message: str) -> None:
    script = write(tmp_path, {"role": "actor", "text": "x"}, "", line)
    with pytest.raises(ConfigError, match=r"script\.jsonl:3: ") as caught:
        async with FakeBackend(script=script).load(SPEC, seed=0):
            pass
    assert message in str(caught.value)
    with pytest.raises(ConfigError) as before:
        FakeBackend(script=script).tokenizer(SPEC)
    assert str(before.value) == str(caught.value)
    assert len(str(caught.value)) < 1000


async def test_only_a_newline_ends_a_line(tmp_path: Path, ask: Ask) -> None:
    text = "one\u2028two\x85three\x0cfour"
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"role": "actor", "text": text}, ensure_ascii=False) + "\r\n")
    async with FakeBackend(script=str(script)).load(SPEC, seed=0) as model:
        assert (await model.complete(ask(tag=Tag("t", 1, "actor")))).text == text


def test_a_missing_script_is_named_before_anything_is_loaded() -> None:
    for touch in (FakeBackend.fingerprint, FakeBackend.tokenizer):
        with pytest.raises(ConfigError, match=r"backend.script: cannot read nowhere.jsonl"):
            touch(FakeBackend(script="nowhere.jsonl"), SPEC)


def test_the_fingerprint_follows_the_scripts_content(tmp_path: Path) -> None:
    script = write(tmp_path, {"role": "actor", "text": "x"})
    first = FakeBackend(script=script).fingerprint(SPEC)
    write(tmp_path, {"role": "actor", "text": "y"})
    assert FakeBackend(script=script).fingerprint(SPEC) != first


async def test_stop_strings_limits_and_choices_hold(ask: Ask) -> None:
    model = FakeModel(lambda request: "one two\nthree four")
    stopped = await model.complete(ask(sampling=Sampling(stop=("\n", "two"))))
    assert (stopped.text, stopped.finish_reason) == ("one ", "stop")
    cut = await model.complete(ask(sampling=Sampling(max_tokens=2)))
    assert (cut.text, cut.finish_reason, cut.generated_tokens) == ("one two\n", "length", 2)
    chosen = await model.complete(ask(grammar=Choice(("left", "right"))))
    assert chosen.text == "left"


async def test_a_full_context_is_refused(ask: Ask) -> None:
    turns = (Message("system", "x" * 100), Message("user", "x" * 100))
    model = FakeModel(lambda request: "", context_tokens=60)
    with pytest.raises(ContextFull, match="prompt of 50 tokens"):
        await model.complete(ask(turns, Sampling(max_tokens=100)))
    assert (await model.complete(ask("x" * 100, Sampling(max_tokens=100)))).prompt_tokens == 25


async def test_requests_run_at_the_same_time(ask: Ask) -> None:
    model = FakeModel(lambda request: str(model.stats().running))
    answers = await asyncio.gather(*(model.complete(ask()) for _ in range(5)))
    assert sorted(answer.text for answer in answers) == ["0", "1", "2", "3", "4"]
    assert model.stats().running == 0


@pytest.mark.parametrize("options", [{"context_tokens": 0}, {"latency_s": -0.1}])
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(options))}: must be at least"):
        FakeBackend(**options)
