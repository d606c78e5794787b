import platform
import struct

import pytest

from envs.sandbox import seccomp

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000


def run(program: bytes, arch: int, number: int, flags: int = 0) -> int:
    """What the kernel would do: a little interpreter of the five instructions that the filter uses."""
    code = list(struct.iter_unpack("=HBBI", program))
    data = {0: number, 4: arch, 16: flags}
    at, value = 0, 0
    while True:
        kind, yes, no, k = code[at]
        at += 1
        if kind == 0x20:
            value = data[k]
        elif kind == 0x06:
            return int(k)
        else:
            holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[kind]
            at += yes if holds else no


@pytest.mark.parametrize(
    ("machine", "arch", "write", "ptrace", "socket", "unshare", "clone"),
    [("x86_64", 0xC000003E, 1, 101, 41, 272, 56), ("aarch64", 0xC00000B7, 64, 117, 198, 97, 220)],
)
def test_the_filter_refuses_what_it_says(
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    arch: int,
    write: int,
    ptrace: int,
    socket: int,
    unshare: int,
    clone: int,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    program = seccomp.program()
    assert run(program, arch, write) == ALLOW
    assert run(program, arch, clone, 0x11) == ALLOW
    assert {run(program, arch, number) for number in (ptrace, socket, unshare, 425, 442)} == {EPERM}
    assert run(program, arch, clone, 0x10000011) == EPERM
    assert run(program, arch, 435) == ENOSYS
    assert run(program, arch, 0x40000000 + write) == EPERM
    assert run(program, 0x40000003, write) == KILL


def test_another_machine_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert seccomp.program() == b""
