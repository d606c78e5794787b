"""No engine outlives its owner.

vLLM runs the model in processes of its own. When the process that started them is killed they go on, and keep
the memory of the GPU that the next start needs. vLLM loads this module in each of its processes (entry point
`vllm.general_plugins`), where it waits for the owner's end.
"""

import os
import select
import signal
import threading

OWNER = "REFLEXION_ENGINE_OWNER"
"""Environment variable with the process id of the owner; processes without it are left alone."""


def watch() -> None:
    """In a process of an engine that has an owner: end when the owner ends, however it ends."""
    owner = int(os.environ.get(OWNER, "0"))
    if owner and owner != os.getpid() and not _watching.is_set():
        _watching.set()
        threading.Thread(target=_end_with, args=(owner,), daemon=True, name="owner").start()


_watching = threading.Event()


def _end_with(owner: int) -> None:
    try:
        handle = os.pidfd_open(owner)
    except ProcessLookupError:
        pass  # it has ended already
    else:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll()
    os.kill(os.getpid(), signal.SIGKILL)
