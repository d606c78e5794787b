import importlib.metadata
import os
import signal
import subprocess
import sys

import pytest

from engine.inference.orphans import OWNER, watch

WATCHER = "from engine.inference.orphans import watch; watch(); print('on', flush=True); input()"


def start_watcher(owner: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WATCHER],
        env={**os.environ, OWNER: str(owner)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_process_ends_when_its_owner_is_killed() -> None:
    with subprocess.Popen(["sleep", "60"]) as owner, start_watcher(owner.pid) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "on\n"
        assert watcher.poll() is None
        owner.kill()
        assert watcher.wait(timeout=20) == -signal.SIGKILL


def test_a_process_whose_owner_has_ended_already_ends_at_once() -> None:
    with subprocess.Popen(["true"]) as owner:
        owner.wait()
    with start_watcher(owner.pid) as watcher:
        assert watcher.wait(timeout=20) == -signal.SIGKILL


def test_processes_without_an_owner_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OWNER, raising=False)
    watch()
    monkeypatch.setenv(OWNER, str(os.getpid()))
    watch()


def test_vllm_loads_the_watch_in_each_of_its_processes() -> None:
    plugins = importlib.metadata.entry_points(group="vllm.general_plugins")
    assert [plugin.load() for plugin in plugins if plugin.name == "reflexion_orphans"] == [watch]
