"""Starts an engine's processes quietly, and finds out why they did not start."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# "ValueError: …" or "torch.OutOfMemoryError: …", behind whatever prefix a logger puts before it.
ERROR_LINE = re.compile(r"(?:^|[\s.])([A-Z]\w*(?:Error|Exception|Interrupt)): (\S.*)$", re.MULTILINE)
KEPT_BYTES = 1 << 18


@contextmanager
def environment(defaults: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, and afterwards undo every change, other people's too."""
    before = dict(os.environ)
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class EngineLog:
    """What an engine's processes write to stderr, kept out of the terminal.

    Processes that start inside `capture` keep writing here for as long as they live.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the engine)
        self._begin = 0

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Send this process's stderr, and that of the processes it starts, to the log."""
        sys.stderr.flush()
        terminal = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)

    def begin(self) -> None:
        """Disregard what was written so far."""
        self._begin = os.fstat(self._file.fileno()).st_size

    def causes(self) -> list[str]:
        """Messages of the errors in the log, the first one first: later ones are mostly consequences."""
        size = os.fstat(self._file.fileno()).st_size
        start = max(self._begin, size - KEPT_BYTES)
        text = os.pread(self._file.fileno(), KEPT_BYTES, start).decode(errors="replace")
        return [f"{name}: {message}" for name, message in ERROR_LINE.findall(text)]

    def close(self) -> None:
        """Drop the log."""
        self._file.close()
