import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"scripts/{script}.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_the_tables_of_a_run_can_be_printed_again(tmp_path: Path) -> None:
    played = run("sweep", "backend=fake", "tasks.first=2", f"paths.runs={tmp_path}", "display.mode=off")
    assert played.returncode == 0, played.stderr
    (folder,) = tmp_path.iterdir()
    printed = run("report", str(folder))
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.strip() == played.stdout.partition("\n")[2].strip()
    for heading in ("Outcomes per trial", "Cost per trial", "Cost per role", "TP", "p95", "env"):
        assert heading in printed.stdout


def test_what_is_no_run_is_one_line(tmp_path: Path) -> None:
    done = run("report", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path}: is no run directory (it has no record.sqlite)\n"
