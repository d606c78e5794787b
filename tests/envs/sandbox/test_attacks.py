"""No program passes, escapes or stays, whatever it tries."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from envs.sandbox import Report, Sandbox
from tests.envs.sandbox.programs import TEST, read

ATTACKS = read("attacks.txt")
REACHES = read("reaches.txt")


in_module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(patience=1, memory_mb=256) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reports() -> dict[str, Report]:
    """What became of every attack; four at a time, for most of them do nothing but wait."""
    async with Sandbox(patience=2, memory_mb=256, slots=4) as sandbox:
        runs = [sandbox.run(program, [TEST], names=["f"], seconds=1) for program in ATTACKS.values()]
        return dict(zip(ATTACKS, await asyncio.gather(*runs), strict=True))


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_passes(reports: dict[str, Report], name: str) -> None:
    (result,) = reports[name].results
    assert not result.passed
    assert result.detail
    assert reports[name].wall_s < 30


def test_no_attack_leaves_a_process(reports: dict[str, Report]) -> None:
    assert len(reports) == len(ATTACKS)
    assert leftovers() == []


async def test_memory_is_limited_over_all_processes() -> None:
    async with Sandbox(patience=30, memory_mb=256) as sandbox:
        program = ATTACKS["memory flood by many processes"]
        report = await sandbox.run(program, [TEST], names=["f"], seconds=1)
    assert report.results[0].ended == "died"
    assert report.results[0].detail.endswith("took too much memory")


@pytest.mark.parametrize("name", REACHES)
@in_module_loop
async def test_nothing_of_the_host_is_reached(
    sandbox: Sandbox, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "canary")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        port = server.getsockname()[1]
        abstract.bind(f"\0canary-{port}")
        abstract.listen()
        test = f"assert reached({port}) == []"
        report = await sandbox.run(REACHES[name], [test], names=["reached"], seconds=5)
    assert report.results[0].passed, report.results[0].detail


@in_module_loop
async def test_an_attack_does_not_touch_the_tests_after_it(sandbox: Sandbox) -> None:
    program = (
        "import os\nstate = []\ndef f(x):\n if x == 0: os._exit(0)\n state.append(x)\n return len(state)"
    )
    tests = ["assert f(1) == 1", "f(0)", "assert f(1) == 1", "while True: f(1)", "assert f(2) == 1"]
    report = await sandbox.run(program, tests, names=["f"], seconds=1)
    assert [result.ended for result in report.results] == ["passed", "died", "passed", "timeout", "passed"]


@pytest.mark.parametrize(
    "test",
    [
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "raise SystemExit",
        "try:\n  f(0)\nexcept BaseException: pass",
        "import os\nfor fd in range(64):\n try: os.write(fd, b'{}')\n except OSError: pass\nos._exit(0)",
        "while True: pass",
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
    ],
)
@in_module_loop
async def test_a_test_that_misbehaves_is_no_pass(sandbox: Sandbox, test: str) -> None:
    report = await sandbox.run("import os\ndef f(x): os._exit(0)", [test], names=["f"], seconds=1)
    assert not report.results[0].passed
    assert leftovers() == []


def leftovers() -> list[str]:
    """Processes with one of the uids that root's jails of this process have."""
    first = (1 << 30) + os.getpid() * 128
    found = []
    for entry in Path("/proc").iterdir() if os.geteuid() == 0 else ():
        try:
            if entry.name.isdigit() and first <= entry.stat().st_uid < first + 128:
                found.append(entry.name)
        except FileNotFoundError:
            continue
    return found
