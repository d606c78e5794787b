import builtins
import gzip
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envs.data import Record
from envs.programming.extraction import extract
from envs.programming.problem import Problem
from envs.programming.source import defines

PROMPT = 'import math\n\n\ndef helper(x):\n    return x\n\n\ndef area(r):\n    """Area of a circle."""\n'
PROBLEM = Problem.from_record(
    Record(
        {"task_id": "T/0", "prompt": PROMPT, "entry_point": "area", "test": "def check(candidate): ..."},
        "here",
    )
)
CODE = "def area(r):\n    return math.pi * r ** 2\n"
BODY = "    return math.pi * r ** 2\n"
OTHER = "def other():\n    return 1\n"


def runs_as_area(code: str) -> bool:
    names: dict[str, object] = {}
    exec(PROBLEM.program(code), names)
    area = names["area"]
    return callable(area) and bool(round(area(2), 3) == 12.566)


GOOD_REPLIES = {
    "bare": CODE,
    "fence": f"Sure!\n```python\n{CODE}```\nThat is it.",
    "fence without a language": f"```\n{CODE}```",
    "tilde fence": f"~~~py\n{CODE}~~~",
    "unclosed fence": f"Here:\n```python\n{CODE}",
    "CRLF": f"```python\n{CODE}```".replace("\n", "\r\n"),
    "indented fence": textwrap.indent(f"```python\n{CODE}```", "   "),
    "the right one of several": f"```python\n{OTHER}```\n```python\n{CODE}```\n```\nprint(area(1))\n```",
    "the later version": f"```python\ndef area(r):\n    return 0\n```\nBetter:\n```python\n{CODE}```",
    "a stub is no version": f"```python\n{CODE}```\n```python\ndef area(r):\n    ...\n```",
    "PYTHON tags": f"[PYTHON]\n{CODE}[/PYTHON]\n[TESTS]\nassert area(1) == 3\n[/TESTS]",
    "solution tags": f"<thought> easy </thought>\n<solution>\n{CODE}</solution>\nDone.",
    "chatter without a fence": f"The function from the task is:\n\n{CODE}\nI hope that helps!",
    "the prompt again": PROMPT + BODY,
    "the prompt again in a fence": f"```python\n{PROMPT}{BODY}```",
    "body": BODY,
    "body without its indentation": "return math.pi * r ** 2",
    "body with a short first line": "x = r ** 2\n    return math.pi * x",
    "body in a fence": f"```python\n{BODY}```",
    "body and more functions": f"{BODY}\n\n{OTHER}\nprint(area(",
    "own imports": f"from __future__ import annotations\nimport math\n\n{CODE}",
    "helper in another block": "```python\nfrom math import pi\ndef square(x):\n    return x * x\n```\n"
    "```python\ndef area(r):\n    return pi * square(r)\n```",
    "demonstrations that fail": f"```python\n{CODE}\nassert area(1) == 7\nprint(area('x'))\n```",
    "main guard": f"```python\n{CODE}\nif __name__ == '__main__':\n    raise SystemExit(area(1))\n```",
    "global that calls it": f"```python\n{CODE}\nresult = area(None)\n```",
    "curly quotes": CODE.replace("return", "\u201c\u201d\u201cDoc.\u201d\u201d\u201d\n    return"),
    "zero width and hard spaces": "\ufeff" + CODE.replace("    ", "\u00a0\u00a0\u00a0\u00a0"),
    "thinking": f"<think>def area(r): return 0</think>\n```python\n{CODE}```",
    "made-up turns": f"```python\n{CODE}```\n<|user|>\nWrong:\n```\ndef area(r):\n    return 0\n```",
    "helper that is nested deeply": f"```\ndef many():\n    return {'1 + ' * 900}1\n```\n```python\n"
    "def area(r):\n    return math.pi * r ** 2 + 0 * many()\n```",
    "odd line ends within a string": f"```python\ndef area(r):\n    '\x0c\u2028\x1c'\n{BODY}\n\narea(0)\n```",
    "future imports on several lines": f"from __future__ import (\n    annotations,\n)\n{CODE}",
    "half a surrogate pair": f"\ud800\n```python\ndef area(r):\n    '\ud83d'\n{BODY}```",
    "decorated": "```python\nimport functools\n\n@functools.cache\n" + CODE + "```",
    "chatter that looks like an import": f"import the module, then define it:\n{CODE}",
}


@pytest.mark.parametrize("reply", GOOD_REPLIES.values(), ids=GOOD_REPLIES)
def test_the_program_is_found(reply: str) -> None:
    found = extract(reply, PROBLEM)
    assert found.problem == ""
    assert runs_as_area(found.code)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "The reply has no code."),
        ("I cannot help with that.", "The reply has no code."),
        ("Sorry", "The reply has no code."),
        (f"```python\n{OTHER}```", "The reply has no complete function named area."),
        ("```python\ndef area(r):\n    pass\n```", "The reply has no complete function named area."),
        ("```python\ndef area(r)\n    return 1\n```", "SyntaxError: expected ':' (line 1)"),
        ("```python\ndef area(r):\n    return (1 +\n```", "SyntaxError: '(' was never closed (line 2)"),
        ("```python\ndef area(r):\n    x = 1\n    return x +\n", "SyntaxError: invalid syntax (line 3)"),
        ("def area(r):\n    return '\0'", "SyntaxError: source code string cannot contain null bytes"),
        (f"def area(r):\n    return {'9' * 5000}", "SyntaxError: Exceeds the limit"),
        (f"def area(r):\n    return {'[' * 250}{']' * 250}", "SyntaxError: too many nested parentheses"),
        (f"def area(r):\n    return {'-' * 20_000}r", "SyntaxError: "),
        (
            f"def area(r):\n    return '{'x' * 40_000}'",
            "SyntaxError: the code is longer than 32768 characters",
        ),
    ],
)
def test_what_is_wrong_is_said(reply: str, problem: str) -> None:
    found = extract(reply, PROBLEM)
    assert found.problem.startswith(problem)
    assert problem or not found.problem


def test_half_a_program_is_none() -> None:
    assert extract("def area(r):\n    x = 1\n    x = 2\n" + "    x = 4444\n" * 9000, PROBLEM).problem


@pytest.mark.parametrize("surrogate", ["\ud800", "\udfff"], ids=ascii)  # noqa: PT014 (ruff sees one where there are two)
@pytest.mark.parametrize("shape", ["{}", "def area(r):\n    return '{}'", "def area(r)\n    {}"])
def test_what_is_found_can_always_be_stored(shape: str, surrogate: str) -> None:
    found = extract(shape.format(surrogate), PROBLEM)
    (found.code + found.problem).encode()


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "```\n```\n",
            "```\nx\n```\n",
            "```\ndef area(\n```\n",
            "<|user|>\n",
            "<|user|>def area(\n",
            "def area(\n",
        ),
        *("def area(r): pass\n", "x = 1\n", "[PYTHON]", "\u201c", "import math\n", "    return 1\n"),
    ],
)
def test_a_long_reply_costs_no_more_than_a_bounded_number_of_looks(
    monkeypatch: pytest.MonkeyPatch, piece: str
) -> None:
    looks = count_compilations(monkeypatch)
    extract(piece * 20_000, PROBLEM)
    assert len(looks) <= 1500
    assert max(looks, default=0) < 40_000


def count_compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all sources that are compiled from now on."""
    lengths: list[int] = []
    real = builtins.compile

    def compile_(source: str, *args: Any, **kwargs: Any) -> Any:
        lengths.append(len(source))
        return real(source, *args, **kwargs)

    monkeypatch.setattr(builtins, "compile", compile_)
    return lengths


pieces = st.sampled_from([*CODE.splitlines(), "```", "```python", "[PYTHON]", "x = (", "\t", "'''"])
chatter = st.text(st.characters(blacklist_characters="`~<[@", blacklist_categories=["Cs", "Cc"]))


@given(st.text() | st.lists(pieces).map("\n".join))
@example("def area(r):\n    return " + "(" * 300)
@example("```" * 100)
@example("def area(r):\n    return " + "1 + " * 900 + "1")
@example("def area(r):\n    return r" + ".a" * 900)
@example("\ud800\0")
@example("import x\n" * 1000)
def test_any_text_is_survived(reply: str) -> None:
    found = extract(reply, PROBLEM)
    assert found.problem or defines(found.code, "area")


@given(before=chatter, after=chatter)
def test_chatter_around_a_fence_does_not_matter(before: str, after: str) -> None:
    assert extract(f"{before}\n```python\n{CODE}```\n{after}", PROBLEM).code == CODE


@pytest.mark.parametrize(
    "shape", ["{prompt}{body}", "{body}", "```python\n{prompt}{body}```", "Sure:\n```\n{body}\n```"]
)
def test_real_solutions_survive_every_shape(data_folder: Path, shape: str) -> None:
    with gzip.open(data_folder / "humaneval" / "HumanEval.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        problem = Problem.from_record(Record(row, row["task_id"]))
        reply = shape.format(prompt=row["prompt"], body=row["canonical_solution"])
        assert extract(reply, problem).problem == "", row["task_id"]
