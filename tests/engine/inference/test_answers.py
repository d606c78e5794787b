import pytest

from engine.errors import ContextFull
from engine.inference.answers import room, split_reasoning
from engine.inference.base import Reasoning

THINK = Reasoning("<think>", "</think>")


@pytest.mark.parametrize(
    ("prompt", "wanted", "expected"),
    [(100, 200, 200), (824, 200, 200), (900, 200, 124), (974, 200, 50), (1008, 20, 16), (1020, 4, 4)],
)
def test_an_answer_gets_what_is_left_if_that_is_enough(prompt: int, wanted: int, expected: int) -> None:
    assert room(prompt, wanted, 1024) == expected


@pytest.mark.parametrize(("prompt", "wanted"), [(975, 200), (1009, 20), (1021, 4), (1024, 1), (5000, 10)])
def test_too_little_is_refused(prompt: int, wanted: int) -> None:
    with pytest.raises(ContextFull, match=f"prompt of {prompt} tokens"):
        room(prompt, wanted, 1024)


@pytest.mark.parametrize(
    ("text", "opened", "reasoning", "answer"),
    [
        ("<think>\nhm\n</think>\n\nyes", False, "hm", "yes"),
        ("\n<think>hm</think>yes", False, "hm", "yes"),
        ("hm\n</think>\n\nyes", True, "hm", "yes"),
        ("hm</think>yes", False, "hm", "yes"),  # the template opened it without our knowing
        ("<think>hm</think>    indented\n", False, "hm", "    indented\n"),
        ("<think>it goes on and on", False, "it goes on and on", ""),
        ("it goes on and on", True, "it goes on and on", ""),
        ("yes", False, "", "yes"),
        ("say <think> twice", False, "", "say <think> twice"),
        ("<think></think>", False, "", ""),
    ],
)
def test_reasoning_is_taken_off_the_front(text: str, opened: bool, reasoning: str, answer: str) -> None:
    assert split_reasoning(text, THINK, opened) == (reasoning, answer)


def test_marks_mean_nothing_to_a_model_that_does_not_think() -> None:
    assert split_reasoning("<think>a</think>b", None, False) == ("", "<think>a</think>b")


def test_a_model_may_have_only_a_closing_mark() -> None:
    assert split_reasoning("hm[/R]yes", Reasoning("", "[/R]"), True) == ("hm", "yes")
