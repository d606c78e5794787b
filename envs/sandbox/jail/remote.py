"""The judge's view of the program under test: functions that are called over the wire."""

from __future__ import annotations

import builtins
import signal

from .wire import Disconnected, Wire, WireError, decode, encode, show, show_error, tidy

TYPE_CHECKING = False  # importing typing for it would be a tenth of the start-up time
if TYPE_CHECKING:
    from typing import Any, NoReturn


class CandidateLost(BaseException):
    """The program is gone or broke the protocol. No Exception, so tests that expect one let it through."""


class Candidate:
    """The program under test, loaded afresh for one test.

    Attributes:
        called: Whether the test has called any of the program's functions.
        last: What came out of the latest call, to explain a failure; empty before the first.
        lost: Why nothing more can be asked of the program; empty while all is well.
        out_of_time: Whether it was lost to its limit of CPU time.
        cpu_s: CPU seconds that it used, known once it has ended.
    """

    def __init__(self, wire: Wire, seconds: int) -> None:
        self._wire = wire
        self._seconds = seconds
        self.called = False
        self.last = ""
        self.lost = ""
        self.out_of_time = False
        self.cpu_s = 0.0

    def load(self, source: str) -> None:
        """Run the program's top level. Raises what it raised."""
        self._ask({"op": "load", "source": source})

    def call(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Call one of the program's functions and bring back what it did to lists, dicts and sets."""
        request = {"op": "call", "name": name, "args": encode(args), "kwargs": encode(kwargs)}
        self.called = True
        value, after = self._ask(request)
        merge((args, kwargs), after)
        self.last = f"got {show(value)}"
        return value

    def close(self) -> None:
        """End the program and learn what it used. One that has something else to say is lost."""
        try:
            answer = self._exchange({"op": "end"})
        except CandidateLost:
            return
        if "ended" not in answer:
            self.lost = "the program sent more than it was asked for"
        else:
            self._note_end(answer)

    def _ask(self, request: dict[str, Any]) -> tuple[Any, Any]:
        answer = self._exchange(request)
        if "ended" in answer:
            self._note_end(answer)
            self._lose(self.lost or "the program exited")
        try:
            if "raised" not in answer:
                after = tuple(decode(part) for part in answer.get("after", ()))
                return decode(answer["value"]), after
            error = self._rebuild(answer["raised"])
        except (WireError, KeyError, TypeError) as problem:
            self._lose(f"the program's answer cannot be read: {show_error(problem)}")
        raise error

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.lost:
            raise CandidateLost
        try:
            self._wire.send(request)
            return self._wire.receive()
        except Disconnected:
            self._lose("the program was killed with all its processes: together they took too much memory")
        except WireError as problem:
            self._lose(f"the program's answer cannot be read: {problem}")

    def _lose(self, why: str) -> NoReturn:
        self.lost = why
        raise CandidateLost

    def _note_end(self, answer: dict[str, Any]) -> None:
        code, cpu_s = answer["ended"], answer.get("cpu_s")
        code = code if isinstance(code, int) and abs(code) < 256 else 255
        self.cpu_s = cpu_s if isinstance(cpu_s, float) else 0.0
        if code == -signal.SIGKILL and self.cpu_s > self._seconds - 0.5:
            self.out_of_time = True
            self.lost = f"timed out after {self._seconds} s of CPU time"
        elif code != 0:
            self.lost = f"the program ended with exit status {code}"

    def _rebuild(self, raised: dict[str, Any]) -> Exception:
        self.last = tidy(str(raised["text"]))
        kind = vars(builtins).get(raised["kind"])
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(*decode(raised["args"]))
            except (TypeError, ValueError):
                pass  # a class with a signature of its own
        return RuntimeError(self.last)


def merge(old: Any, new: Any) -> Any:
    """Make `old` look like `new` in place wherever it is mutable, and return what now stands for it."""
    if type(old) is not type(new):
        return new
    if isinstance(old, list):
        old[:] = [merge(*pair) for pair in zip(old, new, strict=False)] + new[len(old) :]
    elif isinstance(old, dict):
        items = {key: merge(old.get(key), item) for key, item in new.items()}
        old.clear()
        old.update(items)
    elif isinstance(old, set):
        old.clear()
        old.update(new)
    elif isinstance(old, tuple):
        return tuple(merge(*pair) for pair in zip(old, new, strict=False)) + new[len(old) :]
    else:
        return new
    return old
