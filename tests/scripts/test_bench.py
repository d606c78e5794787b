import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def bench(*overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/bench.py", *overrides]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_both_parts_measure_something() -> None:
    done = bench("backend=fake", "backend.latency_s=0.01", "tasks.first=3", "bench.host_episodes=[1,3]")
    assert done.returncode == 0, done.stderr
    assert "Host cost per model call" in done.stdout
    assert done.stdout.count("µs") == 2
    assert "efficiency E = T_open / T_sweep = " in done.stdout


def test_impossible_options_are_refused() -> None:
    done = bench("bench.sequential_calls=0")
    assert (done.returncode, done.stderr) == (
        2,
        "error: bench.sequential_calls: must be 1 or more, got 0\n",
    )
