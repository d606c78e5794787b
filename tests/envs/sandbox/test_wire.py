"""Only exact builtins come out of the wire, whatever went in."""

import json
import math
import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.sandbox.jail import wire
from envs.sandbox.jail.remote import merge
from envs.sandbox.jail.wire import Opaque, Wire, WireError, decode, encode, show, tidy

hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
values = st.recursive(
    hashables,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.sets(hashables, max_size=3)
    ),
    max_leaves=10,
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["list", "dict", "int", "set"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
EXACT = {type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range, Opaque}


@given(values)
def test_a_value_crosses_unchanged(value: object) -> None:
    crossed = decode(json.loads(json.dumps(encode(value))))
    assert repr(crossed) == repr(value) or crossed == value
    assert type(crossed) is type(value)


@given(json_values)
def test_nothing_but_exact_builtins_comes_out(data: object) -> None:
    try:
        value = decode(data)
    except WireError:
        return
    assert type(value) in EXACT or type(value) is type(iter([]))


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_a_subclass_crosses_as_its_builtin() -> None:
    assert type(decode(encode(Liar(3)))) is int
    assert decode(encode(Liar(3))) != 4


def test_what_does_not_cross_is_equal_to_nothing() -> None:
    stranger = decode(encode(Any))
    assert isinstance(stranger, Opaque)
    assert stranger != decode(encode(Any))
    assert repr(stranger) == "typing.Any"


@pytest.mark.parametrize(
    "data",
    [
        *(
            {},
            [],
            ["list"],
            ["list", 3],
            ["int", "x"],
            ["int", "1" * (1 << 19)],
            ["range", ["a"]],
            ["bytes", "x"],
        ),
        *(["set", [["list", []]]], ["dict", [[1]]], [["list", []], []], ["complex", []], ["module", "os"]),
    ],
)
def test_a_malformed_value_is_refused(data: object) -> None:
    with pytest.raises(WireError):
        decode(data)


@given(st.text() | st.lists(st.sampled_from([" at 0x7f1234567890", "\ud800", "x", " "])).map("".join))
def test_a_text_for_reports_is_short_and_can_be_stored(text: str) -> None:
    tidied = tidy(text)
    assert len(tidied.encode()) <= 4 * wire.MAX_REPR
    assert " at 0x7f1234567890" not in tidied


def test_addresses_are_left_out_and_nothing_else() -> None:
    first, second = object(), object()
    assert show([first, print]) == show([second, print]) == "[<object object>, <built-in function print>]"
    assert show("it is 0x10, at 0x10") == "'it is 0x10, at 0x10'"
    assert show([object() for _ in range(99)]) == show([object() for _ in range(99)])


def test_depth_is_bounded_in_both_directions() -> None:
    value: list[Any] = []
    for _ in range(wire.MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(WireError, match="deep"):
        encode(value)
    data: list[Any] = ["list", []]
    for _ in range(wire.MAX_DEPTH + 1):
        data = ["list", [data]]
    with pytest.raises(WireError):
        decode(data)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"not json", b"[1]", b"\xff\xfe", b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_a_malformed_message_is_refused(body: bytes) -> None:
    source, sink = os.pipe()
    writer = threading.Thread(target=os.write, args=(sink, len(body).to_bytes(4, "big") + body))
    writer.start()
    try:
        with pytest.raises(WireError):
            Wire(source, sink).receive()
    finally:
        os.close(source)
        writer.join()
        os.close(sink)


def test_a_message_may_not_be_too_long() -> None:
    with pytest.raises(WireError, match="longer than"):
        Wire(-1, -1).send({"text": "x" * wire.MAX_BYTES})


@given(values, values)
def test_merging_makes_the_old_value_look_like_the_new(old: object, new: object) -> None:
    merged = merge(old, new)
    assert repr(merged) == repr(new) or merged == new


def test_merging_keeps_the_identity_of_what_can_change() -> None:
    inner: list[int] = [1]
    outer = {"a": inner, "b": (inner,)}
    assert merge(outer, {"a": [1, 2], "b": ([1, 2],), "c": math.inf}) is outer
    assert outer["a"] is inner
    assert inner == [1, 2]
