"""Limits that a jailed process sets on itself before anything untrusted runs. They can't be raised again."""

import resource

_PROCESSES = 16
_OPEN_FILES = 64
_FILE_BYTES = 1 << 20


def apply(cpu_s: int, memory_mb: int, *, confined: bool) -> None:
    """Limit CPU seconds per process, address space, processes and threads, open files and what is written.

    Soft and hard CPU limits are equal: at a hard limit the kernel kills, and no handler can catch that.
    Outside a jail the number of processes stays as it is, since it would count all those of the user.
    """
    processes = _PROCESSES if confined else resource.getrlimit(resource.RLIMIT_NPROC)[1]
    for kind, limit in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
