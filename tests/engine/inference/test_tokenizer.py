import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from engine.errors import ModelError
from engine.inference import template
from engine.inference.base import ModelSpec, Reasoning
from engine.inference.tokenizer import PROBE, ChatTokenizer, pieces
from engine.records import Message
from tests.engine.inference.models import MODELS, spec

SYSTEM, USER = Message("system", "be brief"), Message("user", "hello")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if think %}<think>\n{% endif %}{% endif %}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A byte-level tokenizer with a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({symbol: number for number, symbol in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>"])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    made.save(str(tmp_path / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": TEMPLATE}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 2048}))
    return tmp_path


def text(folder: Path, tokens: list[int]) -> str:
    return str(Tokenizer.from_file(str(folder / "tokenizer.json")).decode(tokens, skip_special_tokens=False))


def made(folder: Path, **options: object) -> ChatTokenizer:
    return ChatTokenizer(folder, ModelSpec(str(folder), **options))  # type: ignore[arg-type]


def test_turns_end_with_the_opening_of_the_assistants(folder: Path) -> None:
    tokens = made(folder).render((SYSTEM, USER))
    assert text(folder, tokens) == "<s><system>be brief</s>\n<user>hello</s>\n<assistant>"
    assert tokens.count(256) == 1


def test_the_assistants_own_turn_stays_open_to_the_letter(folder: Path) -> None:
    tokens = made(folder).render((USER, Message("assistant", " Action: ")))
    assert text(folder, tokens) == "<s><user>hello</s>\n<assistant> Action: "


def test_plain_text_begins_as_the_model_wants_and_is_counted_as_it_stands(folder: Path) -> None:
    tokenizer = made(folder)
    assert text(folder, tokenizer.render("ab\ncd")) == "<s>ab\ncd"
    assert tokenizer.count("ab\ncd") == 5
    assert tokenizer.count((USER,)) == len(tokenizer.render((USER,)))


def test_template_options_reach_the_template(folder: Path) -> None:
    tokens = made(folder, template_options={"think": True}).render((USER,))
    assert text(folder, tokens).endswith("<assistant><think>\n")


def test_the_model_file_replaces_the_template(folder: Path) -> None:
    tokens = made(folder, chat_template="starchat.jinja").render((SYSTEM, USER))
    assert text(folder, tokens) == "<|system|>\nbe brief<|end|>\n<|user|>\nhello<|end|>\n<|assistant|>\n"


def test_starchats_template_has_a_system_turn_even_when_it_is_empty() -> None:
    starchat = template.ChatTemplate(MODELS, spec("starchat-beta"))
    answered = (USER, Message("assistant", "hi"), USER)
    assert starchat.render(answered) == (
        "<|system|>\n<|end|>\n<|user|>\nhello<|end|>\n<|assistant|>\nhi<|end|>\n"
        "<|user|>\nhello<|end|>\n<|assistant|>\n"
    )
    assert starchat.render(answered[:2]).endswith("<|assistant|>\nhi")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "must be set, .* has no chat template"),
        ("{{ raise_exception('no system turn') }}", "fails: no system turn"),
        ("{{ messages[0].content }}", "drops the assistant's last turn"),
        ("{% for %}", "line 1 of "),
    ],
)
def test_what_is_wrong_with_a_template_is_said(folder: Path, source: str | None, message: str) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": source}))
    with pytest.raises(ModelError, match=f"^model.chat_template: .*{message}"):
        made(folder).render((USER, Message("assistant", "x")))


def test_a_model_without_a_template_continues_plain_text(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    assert made(folder).count("abc") == 3


def test_an_unknown_template_file_is_named(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"model.chat_template: no file .*nowhere.jinja"):
        made(folder, chat_template="nowhere.jinja")


def test_prompts_do_not_depend_on_the_day(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ strftime_now('%d %b %Y') }}{{ messages[0].content }}")
    assert text(folder, made(folder).render((USER,))) == "26 Jul 2024hello"


def test_the_context_is_the_one_asked_for_or_the_models_own(folder: Path) -> None:
    assert made(folder).context_tokens == 2048
    assert made(folder, max_model_len=512).context_tokens == 512
    with pytest.raises(ModelError, match=r"model.max_model_len: must be at most 2048, .* got 4096"):
        made(folder, max_model_len=4096)


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ((USER,), True),
        ((USER, Message("assistant", "<think>hm")), True),
        ((USER, Message("assistant", "<think>hm</think>so")), False),
        ("x <think> y", True),
        ("x", False),
    ],
)
def test_it_knows_whether_a_prompt_ends_inside_the_reasoning(
    folder: Path, prompt: str | tuple[Message, ...], opened: bool
) -> None:
    thinking = made(folder, template_options={"think": True}, reasoning=Reasoning())
    assert thinking.opens_reasoning(prompt) is opened
    assert made(folder).opens_reasoning(prompt) is False


def test_special_tokens_are_known_by_their_text(folder: Path) -> None:
    tokenizer = made(folder)
    assert tokenizer.special_token("</s>") == 257
    assert tokenizer.special_token("a") is None


def test_a_text_is_cut_after_line_breaks_that_something_visible_follows() -> None:
    assert pieces("a\n b\n\nc\n\td\ne\n") == ["a\n b\n\n", "c\n\td\n", "e\n"]
    assert pieces("") == [""]
    assert "".join(pieces(PROBE)) == PROBE


@pytest.mark.model
def test_tokens_are_the_same_with_and_without_cuts(tokenizer: ChatTokenizer) -> None:
    source = Path(__file__).read_text()
    prompt = (Message("system", source[:3000]), Message("user", source), Message("assistant", source[-200:]))
    whole = tokenizer._encode(tokenizer._template.render(prompt))
    assert tokenizer._cuts
    assert tokenizer.render(prompt) == whole
    assert tokenizer.render(prompt) == whole
