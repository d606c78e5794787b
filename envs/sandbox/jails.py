"""How a jail is made: the command line that starts Python inside it.

A jail has no network, no /proc, no /dev, nothing to write to, no environment of the host's, and of its files
only a Python and the libraries that it needs, read-only. The namespaces are bubblewrap's. An ordinary user's
jail lives in a user namespace. Root's cannot, because uid 0 would still be root's own in there, and limits on
processes do not bind root: it drops to a uid that nobody else has.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Literal

from envs.sandbox.errors import SandboxUnavailable

Kind = Literal["bwrap", "unsafe"]

_STAGE = "/stage"
_PYTHON = "/python"
_SETPRIV = "/setpriv"
_FLAGS = ("-s", "-S", "-B", "-X", "utf8")
_NOBODY = 65534
_FIRST_UID = 1 << 30  # far above what distributions and containers hand out
_UIDS_PER_PROCESS = 128

_NAMESPACES = (
    *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--as-pid-1", "--new-session"),
)


def command(
    kind: Kind, stage: Path, module: str, slot: int, arguments: list[str], system_calls: int | None = None
) -> tuple[list[str], dict[str, str]]:
    """The command line, and the whole environment, that run `jail.<module>.main()` in a fresh jail.

    Args:
        kind: "bwrap", or "unsafe" for no isolation at all.
        stage: Folder with the package `jail`, readable by everyone.
        module: "judge" or "candidate".
        slot: Number from 0 that no other jail of this process has at the moment.
        arguments: What the module finds in sys.argv.
        system_calls: Descriptor of an open file with the filter of system calls; None for no filter.
    """
    start = [*_FLAGS, "-c", f"from jail.{module} import main; main()", *arguments]
    if kind == "unsafe":
        return [sys.executable, *start], _environment(str(stage))
    bwrap = _tool("bwrap")
    python, mounts = _python()
    options, drop = _as_root(slot) if os.geteuid() == 0 else (["--unshare-user", "--disable-userns"], [])
    if system_calls is not None:
        options += ["--seccomp", str(system_calls)]
    mounts += ["--ro-bind", str(stage), _STAGE]
    argv = [bwrap, *_NAMESPACES, *options, *mounts, "--remount-ro", "/", "--chdir", "/", "--"]
    return [*argv, *drop, python, *start], _environment(_STAGE)


def _as_root(slot: int) -> tuple[list[str], list[str]]:
    """Options that leave root in the jail, and the command there that gives its rights up."""
    options = ["--ro-bind", _tool("setpriv"), _SETPRIV, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    uid = str(_private_uid(slot))
    drop = [_SETPRIV, "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
    return options, [*drop, "--pdeathsig", "KILL"]  # a change of uid clears the one that bwrap has set


def _environment(stage: str) -> dict[str, str]:
    return {
        "HOME": "/",
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": f"{_PYTHON}/lib",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": stage,
        "TZ": "UTC",
    }


def _python() -> tuple[str, list[str]]:
    """This interpreter's path in the jail, and what to mount for it.

    A Python under somebody's home is mounted at a neutral path, because a jail can't enter the home.
    """
    mounts = []
    for folder in ("/usr", "/usr/bin", _PYTHON, f"{_PYTHON}/bin"):
        mounts += [
            "--perms",
            "0755",
            "--dir",
            folder,
        ]  # made on the way to a mount, they would be root's alone
    for folder in ("/lib", "/lib64"):
        if Path(folder).is_symlink():
            mounts += ["--symlink", str(Path(folder).readlink()), folder]
        else:
            mounts += ["--ro-bind-try", folder, folder]
    for folder in ("/usr/lib", "/usr/lib64"):
        mounts += ["--ro-bind-try", folder, folder]
    prefix = Path(sys.base_prefix).resolve()
    program = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if prefix == Path("/usr"):
        return f"/usr/{program}", [*mounts, "--ro-bind", f"/usr/{program}", f"/usr/{program}"]
    for part in (program, "lib"):
        mounts += ["--ro-bind", str(prefix / part), f"{_PYTHON}/{part}"]
    return f"{_PYTHON}/{program}", mounts


def _private_uid(slot: int) -> int:
    """A uid for one jail: its own where the kernel gives us all uids, else nobody's."""
    mapped = Path("/proc/self/uid_map").read_text().split()
    if int(mapped[2]) < 2 * _FIRST_UID:
        return _NOBODY
    return _FIRST_UID + os.getpid() * _UIDS_PER_PROCESS + slot


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        package = {"bwrap": "bubblewrap", "setpriv": "util-linux"}[name]
        raise SandboxUnavailable(f"{package} ({name}) is not installed: apt-get install {package}")
    return path
