"""How a script ends: a mistake of the user's own is one line and exit code 2, never a stack trace."""

import argparse
import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

MISTAKE, STOPPED, UNREAD = 2, 130, 1
"""Exit codes: wrong input; Ctrl-C; nobody reads what is printed, as after `| head`."""


@contextlib.contextmanager
def one_line(
    mistakes: tuple[type[Exception], ...], say: Callable[[BaseException], str] = str
) -> Iterator[None]:
    """Let the user's mistakes, Ctrl-C and a closed pipe end the script without a stack trace.

    Args:
        mistakes: The exceptions that are the user's.
        say: What to print of one.
    """
    try:
        try:
            yield
        finally:
            print(end="", flush=True)
    except mistakes as error:
        refuse(say(error))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr, flush=True)
        raise SystemExit(STOPPED) from None
    except BrokenPipeError:
        if _stdout_is_read():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        raise SystemExit(UNREAD) from None


def refuse(message: str) -> NoReturn:
    """Print one line and leave."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    raise SystemExit(MISTAKE)


class Parser(argparse.ArgumentParser):
    """An argument parser that complains in one line, too."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        refuse(f"{message}; see --help")


def _stdout_is_read() -> bool:
    poll = select.poll()
    poll.register(sys.stdout, select.POLLOUT)
    return not any(event & select.POLLERR for _, event in poll.poll(0))
