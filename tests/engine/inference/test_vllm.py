import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ContextFull, ModelError
from engine.inference.base import LanguageModel, ModelSpec
from engine.inference.tokenizer import ChatTokenizer
from engine.inference.vllm_backend import VllmBackend
from engine.records import Choice, Message, Regex, Sampling, Tag
from tests.engine.inference.conftest import Ask

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

QUESTIONS = [(Message("user", f"Tell me something about the number {number}."),) for number in range(12)]
WARM = Sampling(temperature=0.9, max_tokens=24)


async def test_an_answer_reports_tokens_and_times(model: LanguageModel, ask: Ask) -> None:
    answer = await model.complete(ask(QUESTIONS[0], Sampling(max_tokens=5)))
    assert answer.text
    assert answer.finish_reason == "length"
    assert answer.generated_tokens == 5
    assert answer.prompt_tokens > 20
    assert 0 <= answer.queued_s <= answer.first_token_s <= answer.total_s < 60
    assert answer.started_at > 1.7e9


async def test_the_same_seed_gives_the_same_answer_alone_and_in_a_batch(
    model: LanguageModel, ask: Ask
) -> None:
    requests = [ask(question, WARM, Tag(f"t{n}", 1, "actor")) for n, question in enumerate(QUESTIONS)]
    together = [answer.text for answer in await asyncio.gather(*map(model.complete, requests))]
    alone = [(await model.complete(request)).text for request in requests[:4]]
    assert alone == together[:4]
    assert len(set(together)) == len(together)


async def test_another_tag_gives_another_answer(model: LanguageModel, ask: Ask) -> None:
    tags = [Tag("t", trial, "actor", step) for trial in (1, 2) for step in (1, 2)]
    answers = await asyncio.gather(*(model.complete(ask(QUESTIONS[0], WARM, tag)) for tag in tags))
    assert len({answer.text for answer in answers}) == len(tags)


async def test_a_stop_string_ends_the_answer_and_is_no_part_of_it(model: LanguageModel, ask: Ask) -> None:
    counting = "1, 2, 3, 4, 5, 6, 7,"
    answer = await model.complete(ask(counting, Sampling(max_tokens=40, stop=(" 10",))))
    assert answer.finish_reason == "stop"
    assert answer.text.startswith(" 8, 9")
    assert " 10" not in answer.text


async def test_the_assistants_own_words_are_continued(model: LanguageModel, ask: Ask) -> None:
    turns = (Message("user", "Count to ten."), Message("assistant", "1, 2, 3, 4, 5, 6,"))
    answer = await model.complete(ask(turns, Sampling(max_tokens=8)))
    assert answer.text.startswith(" 7, 8")


async def test_a_regular_expression_shapes_the_answer(model: LanguageModel, ask: Ask) -> None:
    grammar = Regex(r"(Search|Lookup)\[[A-Za-z ]{1,20}\]")
    answer = await model.complete(
        ask(QUESTIONS[0], Sampling(temperature=1.0, max_tokens=40), grammar=grammar)
    )
    action, _, rest = answer.text.partition("[")
    assert action in ("Search", "Lookup")
    assert rest.endswith("]")


async def test_a_choice_is_kept_to_whatever_characters_it_has(model: LanguageModel, ask: Ask) -> None:
    options = ("put apple 1 in/on table 2", 'say "hi"', "go to shelf 1\\x", "take [x] {y} | z")
    tags = [Tag("t", 1, "actor", step) for step in range(8)]
    hot = Sampling(temperature=2.0, max_tokens=40)
    grammar = Choice(options)
    answers = await asyncio.gather(
        *(model.complete(ask(QUESTIONS[0], hot, tag, grammar=grammar)) for tag in tags)
    )
    assert {answer.text for answer in answers} <= set(options)


async def test_a_broken_regular_expression_is_refused_and_harms_nobody(
    model: LanguageModel, ask: Ask
) -> None:
    with pytest.raises(ModelError, match="vLLM"):
        await model.complete(ask(QUESTIONS[0], Sampling(max_tokens=4), grammar=Regex("(unclosed")))
    assert (await model.complete(ask(QUESTIONS[0], Sampling(max_tokens=2)))).generated_tokens == 2


async def test_a_prompt_that_leaves_no_room_is_refused_and_a_tight_one_is_answered(
    model: LanguageModel, tokenizer: ChatTokenizer, ask: Ask
) -> None:
    word = " word"
    assert tokenizer.count(word * 1000) == 1000
    with pytest.raises(ContextFull, match="1000 tokens"):
        await model.complete(ask(word * 1000, Sampling(max_tokens=200)))
    answer = await model.complete(ask(word * 1000, Sampling(max_tokens=80)))
    assert answer.generated_tokens <= 24


async def test_cancelling_takes_the_request_out_of_the_batch(model: LanguageModel, ask: Ask) -> None:
    endless = Sampling(temperature=1.0, max_tokens=900)
    task = asyncio.create_task(
        model.complete(ask("Once upon a time", endless, grammar=Regex("[a-z ]{3000}")))
    )
    await _until(lambda: model.stats().running == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await model.complete(ask(QUESTIONS[0], Sampling(max_tokens=2)))
    await _until(lambda: model.stats().running == 0)


async def test_a_repeated_prompt_comes_from_the_cache_until_it_is_forgotten(
    model: LanguageModel, ask: Ask
) -> None:
    request = ask("A long beginning that many prompts share. " * 20, Sampling(max_tokens=2))
    await model.forget()
    assert (await model.complete(request)).cached_tokens == 0
    again = await model.complete(request)
    assert again.cached_tokens > again.prompt_tokens * 0.8
    await model.forget()
    assert (await model.complete(request)).cached_tokens == 0


async def test_priorities_are_accepted(model: LanguageModel, ask: Ask) -> None:
    requests = [ask(QUESTIONS[0], Sampling(max_tokens=2), priority=priority) for priority in (5, -1, 0)]
    answers = await asyncio.gather(*map(model.complete, requests))
    assert len({answer.text for answer in answers}) == 1


async def test_a_second_engine_in_one_process_is_refused(model: LanguageModel, small: ModelSpec) -> None:
    with pytest.raises(ModelError, match="only one"):
        async with VllmBackend().load(small, seed=0):
            pass


async def test_a_starchat_model_answers_and_an_engine_can_be_loaded_again_or_die(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.engine.inference.starchat", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    report = json.loads(output.splitlines()[-1])
    assert report["prompt"] == "<|system|>\n<|end|>\n<|user|>\nhello world<|end|>\n<|assistant|>\n"
    assert len(report["vllm"]) > 6
    assert report["transformers"].startswith(report["vllm"])  # vLLM holds back half a character at the end
    assert report["stopped"] == ["", "stop"]
    assert report["death"].startswith("the model's engine died")
    assert "\n" not in report["death"]
    assert report["too_small"].startswith("backend: vLLM does not start")
    assert "backend.kv_cache_memory_bytes" in report["too_small"]
    assert errors.decode() == ""


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (the engine has no event for it)
            await asyncio.sleep(0.05)
