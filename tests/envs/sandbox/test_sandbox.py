"""Honest programs are judged as they would be in one process."""

import asyncio
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import envs
from envs.sandbox import Result, Sandbox, SandboxUnavailable
from envs.sandbox.jails import Kind

in_module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(params=["bwrap", "unsafe"], scope="module", loop_scope="module")
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    async with Sandbox(kind=request.param, patience=6) as sandbox:
        yield sandbox


async def ended(sandbox: Sandbox, program: str, test: str) -> tuple[str, str]:
    (result,) = (await sandbox.run(program, [test], names=["f"], seconds=2)).results
    return result.ended, result.detail


VALUES = [
    *(
        None,
        True,
        0,
        -1,
        1 << 70,
        10**1000,
        1.5,
        -0.0,
        math.inf,
        2j,
        "",
        "é\ud800",
        b"\x00",
        [],
        [[1], (2, {3})],
    ),
    *(
        {"a": [1]},
        {1: 2.0},
        {(1, 2): None},
        set(),
        {1, "x"},
        frozenset({1}),
        range(3),
        (),
        (1,),
        "x" * 100_000,
    ),
]


@in_module_loop
async def test_values_cross_in_both_directions(sandbox: Sandbox) -> None:
    test = "from math import inf\n" + "\n".join(
        f"v = {value!r}\nassert f(v) == v and type(f(v)) is type(v)" for value in VALUES
    )
    assert await ended(sandbox, "def f(x): return x", test) == ("passed", "")


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("from math import nan\ndef f(): return nan", "v = f()\nassert v != v"),
        ("from collections import Counter as C\ndef f(s): return C(s)", "assert f('aa') == {'a': 2}"),
        ("def f(n):\n yield from range(n)", "assert list(f(3)) == [0, 1, 2]"),
        ("def f(a, *, b=1): return a + b", "assert f(1, b=2) == 3"),
        ("def f(x):\n x.sort()", "x = [3, 1, 2]\nassert f(x) is None\nassert x == [1, 2, 3]"),
        ("def f(x):\n x['k'].append(1)", "inner = []\nx = {'k': inner}\nf(x)\nassert inner == [1]"),
        ("def f(x): raise KeyError('k')", "try: f(1)\nexcept KeyError as e: assert e.args == ('k',)"),
        ("class Odd(ValueError): pass\ndef f(x): raise Odd('m')", "try: f(1)\nexcept ValueError: pass"),
        ("def f(x): return 1 // x", "try: f(0)\nexcept ZeroDivisionError: pass\nelse: assert 0"),
        ("import dataclasses\n@dataclasses.dataclass\nclass P: x: int\nf = lambda: P(2).x", "assert f() > 1"),
        ("if __name__ == '__main__': raise SystemExit\ndef f(): return __name__", "assert f() != '__main__'"),
        ("def f(n): return 0 if n == 0 else 1 + f(n - 1)", "assert f(900) == 900"),
        ("from concurrent.futures import ThreadPoolExecutor as T\ndef f(n): return list(T(4).map(abs, [-n]))",
         "assert f(3) == [3]"),
        ("print('noise' * 10000)\ndef f(): return 1", "print('noise')\nassert f() == 1"),
    ],
)  # fmt: skip
@in_module_loop
async def test_honest_programs_pass(sandbox: Sandbox, program: str, test: str) -> None:
    assert await ended(sandbox, program, test) == ("passed", "")


@pytest.mark.parametrize(
    ("program", "test", "expected"),
    [
        ("def f(x): return x", "assert f(3) == 4", ("failed", "got 3")),
        ("def f(x): return x", "assert sorted(f([2, 1])) == []", ("failed", "got [2, 1]")),
        ("def f(x): return object", "assert f(1) == 2", ("failed", "got <class 'object'>")),
        ("def f(x): return {}['k']", "assert f(1) == 2", ("error", "KeyError: 'k'")),
        (
            "def f(x) return x",
            "assert f(1) == 1",
            ("error", "SyntaxError: expected ':' (<solution>, line 1)"),
        ),
        ("def g(x): return x", "f(1)", ("error", "AttributeError: module 'solution' has no attribute 'f'")),
        ("import os\ndef f(x): os._exit(3)", "f(1)", ("died", "the program ended with exit status 3")),
    ],
)
@in_module_loop
async def test_failures_are_explained(
    sandbox: Sandbox, program: str, test: str, expected: tuple[str, str]
) -> None:
    assert await ended(sandbox, program, test) == expected


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("def f(): return object()", "got <object object>"),
        ("def f(): return [lambda: 0]", "got [<function f.<locals>.<lambda>>]"),
        ("def f(): raise ValueError(object())", "ValueError: <object object>"),
        ("def f(): raise ValueError('\\ud800')", "ValueError: \\ud800"),
        ("class R:\n def __repr__(self): return '\\ud800'\ndef f(): return R()", "got \\ud800"),
    ],
)
@in_module_loop
async def test_details_are_the_same_every_time_and_can_be_stored(
    sandbox: Sandbox, program: str, detail: str
) -> None:
    assert (await ended(sandbox, program, "assert f() == 1"))[1] == detail


@pytest.mark.parametrize(
    "test",
    [
        *("pass", "assert f", "assert callable(f)", "assert [f(x) for x in []] == []", "assert lambda: f(1)"),
        *("def check(c): pass\ncheck(f)", "def check(c):\n  if False: c(1)\ncheck(f)", "assert True or f(1)"),
        "x = []\nfor _ in range(300): x = [x]\ntry: f(x)\nexcept Exception: pass",
    ],
)
@in_module_loop
async def test_a_test_that_calls_nothing_has_shown_nothing(sandbox: Sandbox, test: str) -> None:
    expected = ("failed", "the test never called the function")
    assert await ended(sandbox, "def f(x): return x", test) == expected


@pytest.mark.parametrize("test", ["f(1)", "assert [f(x) for x in [1]]", "try: f(0)\nexcept ValueError: pass"])
@in_module_loop
async def test_one_call_is_enough(sandbox: Sandbox, test: str) -> None:
    program = "def f(x):\n if x == 0: raise ValueError\n return x"
    assert await ended(sandbox, program, test) == ("passed", "")


@in_module_loop
async def test_cpu_time_is_limited(sandbox: Sandbox) -> None:
    report = await sandbox.run("def f():\n while True: pass", ["f()"], names=["f"], seconds=1)
    assert report.results[0].ended == "timeout"
    assert report.results[0].detail == "timed out after 1 s of CPU time"
    assert 0.5 < report.cpu_s < 2


@pytest.mark.parametrize("kind", ["bwrap", "unsafe"])
async def test_waiting_is_limited_apart(kind: Kind) -> None:
    async with Sandbox(kind=kind, patience=1.5) as sandbox:
        report = await sandbox.run("import time\ndef f(): time.sleep(99)", ["f()"], names=["f"], seconds=1)
    assert report.results == (Result("timeout", "timed out after 1.5 s"),)


async def test_runs_go_on_side_by_side_and_never_block_the_loop() -> None:
    async with Sandbox(slots=4, patience=1) as sandbox:
        began = time.monotonic()
        runs = [
            sandbox.run("import time\ndef f(): time.sleep(2)", ["f()"], names=["f"], seconds=3)
            for _ in range(4)
        ]
        gaps = asyncio.ensure_future(longest_gap())
        reports = await asyncio.gather(*runs)
        gaps.cancel()
    assert all(report.results[0].passed for report in reports)
    assert time.monotonic() - began < 6


async def longest_gap() -> None:
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.01)
        assert time.monotonic() - before < 1


async def test_a_cancelled_run_gives_its_slot_back() -> None:
    async with Sandbox(slots=1) as sandbox:
        run = asyncio.ensure_future(
            sandbox.run("def f():\n while True: pass", ["f()"], names=["f"], seconds=60)
        )
        await asyncio.sleep(0.3)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert await ended(sandbox, "def f(): return 1", "assert f() == 1") == ("passed", "")


async def test_without_bubblewrap_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        SandboxUnavailable, match=r"^bubblewrap \(bwrap\) is not installed: apt-get install bubblewrap$"
    ):
        await Sandbox().__aenter__()


async def test_a_bubblewrap_that_does_not_work_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: no permission to make a namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(
        SandboxUnavailable, match=r"does not work here: bwrap: no permission to make a namespace$"
    ):
        await Sandbox().__aenter__()


async def test_a_bubblewrap_that_does_not_isolate_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bwrap"  # runs the command as it stands
    fake.write_text(
        '#!/bin/sh\nwhile [ "$1" != -s ]; do\n  [ "$1 $3" = "--ro-bind /stage" ] && stage=$2\n  shift\ndone\n'
        f'PYTHONPATH=$stage exec {sys.executable} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match="does not isolate here: got "):
        await Sandbox().__aenter__()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "docker"}, "kind: must be bwrap or unsafe, got 'docker'"),
        ({"memory_mb": 1}, "memory_mb: must be from 64 to 1048576, got 1"),
        ({"memory_mb": 1 << 21}, "memory_mb: must be from 64 to 1048576, got 2097152"),
        ({"patience": 0.5}, "patience: must be from 1 to 100, got 0.5"),
        ({"patience": math.inf}, "patience: must be from 1 to 100, got inf"),
        ({"patience": math.nan}, "patience: must be from 1 to 100, got nan"),
        ({"slots": -1}, "slots: must be from 0 to 64, got -1"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sandbox(**options)  # type: ignore[arg-type]


USER_SCRIPT = """
import asyncio
from envs.sandbox import Sandbox

async def main():
    async with Sandbox() as sandbox:
        tests = ["assert f(1) == 1", "assert f(1) == 2"]
        honest = await sandbox.run("def f(x): return x", tests, names=["f"])
        hostile = await sandbox.run("import os\\ndef f(x): os._exit(0)", ["f(1)"], names=["f"])
        print(*(r.ended for r in honest.results + hostile.results))

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
def test_an_ordinary_user_has_a_sandbox_too() -> None:
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    recent = "import sys; raise SystemExit(sys.version_info < (3, 11))"
    if python is None or subprocess.run([python, "-c", recent], check=False).returncode != 0:
        pytest.skip("no recent Python that an ordinary user may read")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(Path(envs.__path__[0]) / "sandbox", Path(folder) / "envs" / "sandbox")
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        output = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, "-B", "-c", USER_SCRIPT],
            env={"PYTHONPATH": folder, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (output.stdout.split(), output.stderr) == (["passed", "failed", "died"], "")
