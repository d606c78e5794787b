"""A filter of system calls for the jails: none that reaches into other processes or deep into the kernel.

What is refused fails with EPERM. No honest answer needs it: debugging, namespaces, mounts, modules, keys,
System V memory (which no limit counts), and sockets other than pairs.
"""

import errno
import platform
import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Machine:
    audit_arch: int
    clone: int
    refused: tuple[int, ...]


_COMMON = (
    *(425, 428, 429, 430, 431, 432, 433),  # io_uring_setup, open_tree, move_mount, fsopen to fspick
    *(438, 442),  # pidfd_getfd, mount_setattr
)
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        56,
        (
            *(
                101,
                310,
                311,
                304,
                135,
            ),  # ptrace, process_vm_readv and _writev, open_by_handle_at, personality
            *(272, 308, 165, 166, 155, 161),  # unshare, setns, mount, umount2, pivot_root, chroot
            *(248, 249, 250, 321, 298, 323),  # keys, bpf, perf_event_open, userfaultfd
            *(246, 175, 313, 176, 167, 169, 163),  # kexec_load, modules, swapon, reboot, acct
            *(29, 64, 68, 319, 41),  # shmget, semget, msgget, memfd_create, socket
        ),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        220,
        (
            *(117, 270, 271, 265, 92),
            *(97, 268, 40, 39, 41, 51),
            *(217, 218, 219, 280, 241, 282),
            *(104, 105, 273, 106, 224, 142, 89),
            *(194, 190, 186, 279, 198),
        ),
    ),
}
_CLONE3 = 435
_CLONE_NEW = 0x7E020000  # any new namespace

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000


def program() -> bytes:
    """The filter for this machine as bubblewrap reads it; empty for an architecture that it doesn't know."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return b""
    refused = (*machine.refused, *_COMMON)
    # Each step jumps over the rest of the list: to the refusal, which comes last but one, or the next step.
    code = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, machine.audit_arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 1, _CLONE3),  # its flags lie in memory; the C library falls back to clone
        (_RETURN, 0, 0, _FAIL | errno.ENOSYS),
        (_AT_LEAST, len(refused) + 4, 0, 0x40000000),  # another numbering of the same calls
        *((_EQUAL, len(refused) + 3 - i, 0, number) for i, number in enumerate(refused)),
        (_EQUAL, 0, 2, machine.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 1, 0, _CLONE_NEW),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
