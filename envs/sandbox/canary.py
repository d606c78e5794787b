"""Proof, before any untrusted code runs, that the jail on this machine is one."""

PROGRAM = '''
import os, socket

ALLOWED = {"HOME", "LANG", "LC_CTYPE", "LD_LIBRARY_PATH", "PWD", "PYTHONHASHSEED", "PYTHONPATH", "TZ"}

def reached():
    """What a program gets at that it should not."""
    paths = ["/etc", "/proc/self", "/dev/null", "/root", "/home", "/tmp", "/usr/bin/env"]
    found = [path for path in paths if os.path.exists(path)]
    found += sorted(set(os.environ) - ALLOWED)
    if os.geteuid() == 0:
        found.append("root's rights")
    try:
        socket.socket().close()
        found.append("the network")
    except OSError:
        pass
    for folder in ("/", "/stage", "/usr/lib"):
        try:
            os.close(os.open(folder + "/canary", os.O_CREAT | os.O_WRONLY))
            found.append(f"writing to {folder}")
        except OSError:
            pass
    return found
'''

NAME = "reached"

TESTS = (f"assert {NAME}() == []", f"assert {NAME}() != []")
"""The first must hold and the second must not: a judge that passes everything is no judge."""
EXPECTED = ("passed", "failed")
