"""The candidate's jail: loads the program and answers calls. It has the wire and nothing else.

The first process of the jail forks once per test, so each test meets a fresh program. It reports how the
child ended; a report that the child forges spoils the child's own test and no more, because a verdict is the
judge's alone.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
from contextlib import suppress

from . import limits
from .wire import Disconnected, Wire, WireError, decode, encode, show_error

TYPE_CHECKING = False  # importing typing for it would be a tenth of the start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

MODULE = "solution"


def main() -> None:
    """Serve tests until the judge is gone.

    Arguments: the wire's file descriptor, whether this is a jail (0 or 1), CPU seconds per test, memory MB.
    """
    fd, confined, cpu_s, memory_mb = map(int, sys.argv[1:])
    limits.apply(cpu_s, memory_mb, confined=bool(confined))
    with suppress(Disconnected):
        _serve_tests(Wire(fd, fd))


def _serve_tests(wire: Wire) -> None:
    wire.send({"ready": True})
    while True:
        load = wire.receive()
        child = os.fork()
        if child == 0:
            try:
                _serve_test(wire, load["source"])
            finally:
                os._exit(1)
        _, status, usage = os.wait4(child, 0)
        _kill_the_rest()
        wire.send({"ended": os.waitstatus_to_exitcode(status), "cpu_s": usage.ru_utime + usage.ru_stime})


def _kill_the_rest() -> None:
    """End what the child has left behind. Only the first process of a PID namespace may ask for that."""
    if os.getpid() != 1:
        return
    try:
        os.kill(-1, signal.SIGKILL)
        while os.waitpid(-1, 0):
            pass
    except (ChildProcessError, ProcessLookupError):
        return


def _serve_test(wire: Wire, source: str) -> None:
    module = type(sys)(MODULE)
    sys.modules[MODULE] = module  # dataclasses look their module up
    _answer(wire, lambda: _load(module, source))
    while (request := wire.receive())["op"] == "call":
        _answer(wire, lambda request=request: _call(module, request))  # type: ignore[misc]
    os._exit(0)


def _load(module: ModuleType, source: str) -> dict[str, Any]:
    exec(compile(source, f"<{MODULE}>", "exec"), module.__dict__)
    return {"value": None}


def _call(module: ModuleType, request: dict[str, Any]) -> dict[str, Any]:
    before = [request["args"], request["kwargs"]]
    args, kwargs = map(decode, before)
    answer = {"value": encode(getattr(module, request["name"])(*args, **kwargs))}
    after = [encode(args), encode(kwargs)]
    return answer if after == before else {**answer, "after": after}


def _answer(wire: Wire, action: Callable[[], dict[str, Any]]) -> None:
    try:
        wire.send(action())
    except Disconnected:
        raise
    except BaseException as error:  # SystemExit and KeyboardInterrupt are answers like any other
        wire.send({"raised": _describe(error)})


def _describe(error: BaseException) -> dict[str, Any]:
    """An exception as its nearest builtin class, its arguments, and the last line of its traceback."""
    kinds = type.mro(type(error))
    kind = next(kind.__name__ for kind in kinds if vars(builtins).get(kind.__name__) is kind)
    text = show_error(error)
    try:
        return {"kind": kind, "args": encode(error.args), "text": text}
    except WireError:
        return {"kind": kind, "args": ["tuple", [text]], "text": text}
