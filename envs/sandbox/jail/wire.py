"""The closed wire between judge and candidate: length-prefixed JSON in which every value carries its type.

Only exact builtins come out of `decode`, whatever the other side sends, so no object of the candidate's own
(with an `__eq__` that lies) ever reaches a test. Size, depth and the length of integers are bounded.
"""

from __future__ import annotations

import json
import os
import re
from itertools import islice

TYPE_CHECKING = False  # importing typing for it would be a tenth of the start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_BYTES = 8 << 20
"""Longest message. A judge can hold the values of one such message within its own memory limit."""

MAX_DEPTH = 200
MAX_HEX_DIGITS = 1 << 18
MAX_ITEMS = 1 << 20
MAX_REPR = 200

_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")


class WireError(Exception):
    """The other side broke the protocol, or a value is too large or too deep to cross."""


class Disconnected(WireError):
    """The other side is gone."""


class Opaque:
    """Stands for a value of a type that doesn't cross. Equal to nothing but itself."""

    def __init__(self, text: str) -> None:
        self._text = tidy(text)

    def __repr__(self) -> str:
        return self._text


class Wire:
    """One end of the wire: whole messages over two file descriptors (the same one for a socket)."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink

    def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raises WireError when it is too long."""
        body = json.dumps(message, separators=(",", ":")).encode()
        if len(body) > MAX_BYTES:
            raise WireError(f"a message of {len(body)} bytes is longer than {MAX_BYTES}")
        view = memoryview(len(body).to_bytes(4, "big") + body)
        try:
            while view:
                view = view[os.write(self._sink, view) :]
        except OSError:
            raise Disconnected("the other side is gone") from None

    def receive(self) -> dict[str, Any]:
        """The next message. Raises WireError on anything that is not one."""
        size = int.from_bytes(self._read(4), "big")
        if size > MAX_BYTES:
            raise WireError(f"a message of {size} bytes is longer than {MAX_BYTES}")
        body = self._read(size)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise WireError(f"a message is not JSON: {type(error).__name__}") from None
        if not isinstance(message, dict):
            raise WireError("a message is not an object")
        return message

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.read(self._source, min(size, 1 << 20))
            except OSError:
                part = b""
            if not part:
                raise Disconnected("the other side is gone")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def encode(value: object, depth: int = 0) -> Any:
    """The JSON form of a value. A subclass of a builtin crosses as the builtin that it is made of."""
    if depth > MAX_DEPTH:
        raise WireError(f"a value is nested more than {MAX_DEPTH} deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__int__(value)
        return number if number.bit_length() <= 64 else ["int", hex(number)]
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, complex):
        return ["complex", [value.real, value.imag]]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", value.hex()]
    return _encode_container(value, depth + 1)


def _encode_container(value: object, depth: int) -> Any:
    if isinstance(value, dict):
        return ["dict", [[encode(key, depth), encode(item, depth)] for key, item in dict.items(value)]]
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return [kind.__name__, [encode(item, depth) for item in value]]
    if isinstance(value, range):
        return ["range", [encode(part) for part in (value.start, value.stop, value.step)]]
    if hasattr(type(value), "__next__"):
        return ["iterator", [encode(item, depth) for item in islice(value, MAX_ITEMS)]]  # type: ignore[call-overload]
    return ["opaque", show(value)]


def decode(data: Any, depth: int = 0) -> Any:
    """The value of a JSON form, built of exact builtins (and `Opaque`). Raises WireError."""
    if depth > MAX_DEPTH:
        raise WireError(f"a value is nested more than {MAX_DEPTH} deep")
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    try:
        tag, body = data
        return _DECODERS[tag](body, depth + 1)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"a value is malformed ({type(error).__name__})") from None


def _decode_int(body: Any, _: int) -> int:
    if len(body) > MAX_HEX_DIGITS:
        raise WireError("an integer is too long to cross")
    return int(body, 16)


def _items(body: Any, depth: int) -> list[Any]:
    return [decode(item, depth) for item in body]


_DECODERS: dict[str, Callable[[Any, int], Any]] = {
    "int": _decode_int,
    "complex": lambda body, _: complex(float(body[0]), float(body[1])),
    "bytes": lambda body, _: bytes.fromhex(body),
    "list": _items,
    "tuple": lambda body, depth: tuple(_items(body, depth)),
    "set": lambda body, depth: set(_items(body, depth)),
    "frozenset": lambda body, depth: frozenset(_items(body, depth)),
    "dict": lambda body, depth: {decode(key, depth): decode(item, depth) for key, item in body},
    "range": lambda body, depth: range(*_items(body, depth)),
    "iterator": lambda body, depth: iter(_items(body, depth)),
    "opaque": lambda body, _: Opaque(str(body)),
}


def tidy(text: str) -> str:
    """A text for reports: short, storable (without lone surrogates), and without addresses in memory.

    An address differs from run to run, and so would every prompt that quotes it.
    """
    text = _ADDRESS.sub("", text[: 20 * MAX_REPR]).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_REPR else text[: MAX_REPR - 1] + "…"


def show(value: object) -> str:
    """A short `repr` that cannot fail."""
    try:
        text = repr(value)
    except BaseException as error:  # a repr of the candidate's own may do anything
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return tidy(text)


def show_error(error: BaseException) -> str:
    """The last line of an exception's traceback, shortened. Cannot fail."""
    try:
        text = str(error)
    except BaseException:  # a __str__ of the candidate's own may do anything
        text = "…"
    return tidy(f"{type(error).__name__}: {text}" if text else type(error).__name__)
