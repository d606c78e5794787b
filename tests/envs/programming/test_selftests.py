import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.programming.selftests import parse_tests
from tests.envs.programming.test_extraction import count_compilations

KEPT = {
    "bare": ("assert f(1) == 2", ["assert f(1) == 2"]),
    "fenced with chatter": ("Tests:\n```python\nassert f(1) == 2\nassert f(2) == 3\n```\nDone.",
                            ["assert f(1) == 2", "assert f(2) == 3"]),
    "bullets and ticks": ("- `assert f(1) == 2`\n2. assert f(2) == 3\n>>> assert f(3) == 4",
                          ["assert f(1) == 2", "assert f(2) == 3", "assert f(3) == 4"]),
    "message": ("assert f(1) == 2, 'one and one'", ["assert f(1) == 2"]),
    "comment": ("assert f(1) == 2  # one and one", ["assert f(1) == 2"]),
    "several lines": ("assert f(\n    [1,\n     2],\n) == 3", ["assert f([1, 2]) == 3"]),
    "in a def": ("def test_f():\n  assert f(1) == 2\n  assert f(2)", ["assert f(1) == 2", "assert f(2)"]),
    "duplicates": ("assert f(1)==2\nassert f(1) == 2\nassert f( 1 ) == 2", ["assert f(1) == 2"]),
    "CRLF": ("assert f(1) == 2\r\nassert f(2) == 3\r\n", ["assert f(1) == 2", "assert f(2) == 3"]),
    "builtins": ("assert sorted(f({'a'})) == list('a')", ["assert sorted(f({'a'})) == list('a')"]),
    "module": ("assert math.isclose(f(1), 0.5)", ["import math\nassert math.isclose(f(1), 0.5)"]),
    "imported name": ("from math import isclose as near, pi\nassert near(f(1), pi)",
                      ["from math import isclose as near\nfrom math import pi\nassert near(f(1), pi)"]),
    "comprehension": ("assert [f(x) for x in [1, 2]] == [1, 2]", ["assert [f(x) for x in [1, 2]] == [1, 2]"]),
    "message in brackets": ("assert (f(1) == 99, 'msg')\nassert (f(2) == 3,)",
                            ["assert f(1) == 99", "assert f(2) == 3"]),
    "either of two": ("assert f(1) == 2 or f(1) == 3", ["assert f(1) == 2 or f(1) == 3"]),
    "a question for NaN": ("assert f(1) != f(1)", ["assert f(1) != f(1)"]),
    "two calls": ("assert f(1, 2) == f(2, 1)", ["assert f(1, 2) == f(2, 1)"]),
    "half a surrogate pair": ("assert f('\ud800') == 1", ["assert f('\\ud800') == 1"]),
    "unfinished last line": ("assert f(1) == 2\nassert f([1, 2", ["assert f(1) == 2"]),
}  # fmt: skip

DROPPED = [
    "assert True",
    "assert 1 == 1",
    "assert g(1) == 2",
    "assert f",
    "assert f(x) == 2",
    "assert f(...) == ...",
    "assert ____ == f(1)",
    "assert f(open('/etc/passwd').read())",
    "assert os.getcwd() == f(1)",
    "assert f.__code__ and f(1)",
    "assert (yield f(1))",
    "f(1) == 2",
    "print(f(1))",
    "the assert f(1) == 2 in a sentence",
    "import os\nassert f(os.sep)",
    "",
]

CANNOT_FAIL = [
    "assert lambda: f(1)",
    "assert True or f(1)",
    "assert f(1) or True",
    "assert f(1) == 2 or not False",
    "assert (f(1) == 2 or 1, 'msg')",
    "assert not (f(1) and 0)",
    "assert [f(1)]",
    "assert {f(1): 2}",
    "assert {f(1)}",
    "assert [*f(1), 2]",
    "assert (f(x) for x in [1])",
    "assert f'got {f(1)}'",
    "assert (x := [f(1)])",
    "assert f(1) == f(1)",
    "assert f(1,2)==f( 1, 2 )",
    "assert f(1) is f(1)",
    "assert f(1) <= f(1)",
    "assert (f(1) == 2) == (f(1) == 2)",
    "assert [1] if f(1) else 'x'",
    "assert 'x' if True else f(1)",
    "assert [f(x) for x in []] == []",
    "assert all(f(x) == 1 for x in ())",
    "assert (lambda f: f(1))(abs) == 1",
    "assert [f(1) for f in [abs]] == [1]",
]

BEYOND_PYTHON = [
    f"assert f(1) == {'1 + ' * 600}1",
    f"assert f(1){'.a' * 600}",
    f"assert {'not ' * 400}f(1)",
    f"assert f({'(' * 5000}",
    f"assert f({'-' * 1900}1)",
    f"assert f({'9' * 5000}) == 1",
    f"assert f(0x{'F' * 3800}) == 1",
    "assert f('\0') == 1",
    "import math, \0\nassert g(1) == 2",
]


@pytest.mark.parametrize(("reply", "tests"), KEPT.values(), ids=KEPT)
def test_usable_tests_are_kept(reply: str, tests: list[str]) -> None:
    assert list(parse_tests(reply, "f")) == tests


@pytest.mark.parametrize("reply", [*DROPPED, *CANNOT_FAIL, *BEYOND_PYTHON])
def test_useless_tests_are_dropped(reply: str) -> None:
    assert parse_tests(reply, "f") == ()


@pytest.mark.parametrize(
    "piece", ["assert f(\n", "assert f(\n" + "x\n" * 20, "import math\n", "assert f(" + "1," * 1900 + "\n"]
)
def test_a_long_reply_costs_no_more_than_a_bounded_number_of_looks(
    monkeypatch: pytest.MonkeyPatch, piece: str
) -> None:
    looks = count_compilations(monkeypatch)
    parse_tests(piece * 20_000, "f")
    assert len(looks) <= 2000
    assert sum(looks) < 400_000


def test_a_long_reply_still_gives_its_first_tests() -> None:
    reply = "".join(f"assert f({number}) == 1\n" for number in range(100_000))
    assert parse_tests(reply, "f")[:2] == ("assert f(0) == 1", "assert f(1) == 1")


@pytest.mark.parametrize("lead", ["", "x" * 199_000 + "\n"], ids=["long line", "long reply"])
def test_half_a_line_is_no_test(lead: str) -> None:
    assert parse_tests(f"{lead}assert f(1) == {'12' * 1100}", "f") == ()


def test_a_function_that_is_called_like_a_builtin_is_still_the_one_under_test() -> None:
    assert parse_tests("assert sum([1]) == 1", "sum") == ("assert sum([1]) == 1",)


@given(
    st.text()
    | st.lists(st.sampled_from(["assert ", "f(1)", "==", "\n", "(", "'''", "import math", "``", "\\"])).map(
        "".join
    )
)
def test_any_text_is_survived_and_what_is_kept_is_stable(reply: str) -> None:
    tests = parse_tests(reply, "f")
    assert parse_tests("\n".join(tests), "f") == tests


def test_real_replies_give_what_they_have(data_folder: Path) -> None:
    with gzip.open(data_folder / "raw_outputs" / "test_replies.jsonl.gz", "rt") as file:
        rows = {row["id"]: row for row in map(json.loads, file)}
    found = {}
    for name, row in rows.items():
        entry_point = re.search(r"entry_point=(\w+)", row["truth"]["note"])
        found[name] = len(parse_tests(row["raw"], entry_point[1] if entry_point else "add_space"))
    assert found["test-0000"] == 6
    assert found["test-0060"] > 5
    assert found["test-0092"] == 4
    assert found["test-0040"] == 0
