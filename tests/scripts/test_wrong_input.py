"""Every mistake of the user is one clear line and exit code 2, before a model is loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import endings

ROOT = Path(__file__).parents[2]
TASK = {"task_id": "T/0", "prompt": "def f():\n", "entry_point": "f", "test": "def check(c):\n    pass\n"}


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/sweep.py"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


def sweep(tmp_path: Path, *overrides: str, environment: dict[str, str] | None = None) -> str:
    """The one line on stderr."""
    command = [sys.executable, "scripts/sweep.py", *overrides, f"paths.runs={tmp_path / 'runs'}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert done.returncode == 2, done.stderr + done.stdout
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("memory.limt=3", "memory.limt: unknown option; did you mean limit?"),
        ("memry=last3", "memry: unknown option; did you mean memory?"),
        ("memory=last2", "memory: there is no 'last2' in conf/memory; did you mean last3?"),
        ("env=humanevl", "env: there is no 'humanevl' in conf/env; did you mean humaneval?"),
        ("memory.limit=-1", "memory.limit: must be 0 or more, got -1"),
        ("memory.limit=many", "memory.limit: Input should be a valid integer, got 'many'"),
        ("limits.max_trials=0", "limits.max_trials: must be 1 or more, got 0"),
        ("+surprise=1", "surprise: unknown option"),
        ("actor._target_=os.system", "actor._target_: os.system is outside this project"),
        ("tasks.ids=[Starter/999]", "tasks.ids: there is no task 'Starter/999'; did you mean Starter/"),
        ("prompts.folder=nonesuch", "prompts.folder: no folder and no pack called 'nonesuch'"),
        ("env.data=nonesuch.jsonl", "nonesuch.jsonl"),
        ("model.id=./nonesuch", "model.id: "),
        ("env.sandbox=null", "env.sandbox: must be a group of options, got None"),
        ("backend=replay", "backend.run: must be given"),
        ("limits.max_trials=1e400", "limits.max_trials: must be a finite number, got inf"),
        ("display.line_s=nan", "display.line_s: must be a finite number, got nan"),
        ("tasks.ids=[a,b", "cannot parse override 'tasks.ids=[a,b': it must be option=value, with all brack"),
        ("env.data='abc", 'cannot parse override "env.data=\'abc": it must be option=value'),
        ("surprise", "cannot parse override 'surprise': it must be option=value"),
        ("seed=int(x)", "cannot parse override 'seed=int(x)': ValueError while evaluating 'int(x)'"),
        (
            "env._target_=.engine.x",
            "env._target_: must name a class as package.module.Class, got '.engine.x'",
        ),
        ("model.template_options={a: true}", "a new one needs a plus: +model.template_options={a: true}"),
        ("memory.limit=${nonesuch}", "memory.limit: Interpolation key 'nonesuch' not found"),
        ("~memory", "memory: must be given"),
        ("seed=0,1", "To sweep over it, add --multirun"),
        ("hydra.searchpath=[/nonesuch]", "hydra.searchpath: cannot be set to '[/nonesuch]'"),
        ("+hydra.sweeper.params.seed=1", "hydra.sweeper.params.seed: cannot be set to '1'"),
        ("hydra/launcher=nonesuch", "hydra/launcher: there is no 'nonesuch'"),
        ("--experimental-rerun=/nonesuch", "--experimental-rerun: is not supported; the same command again"),
        ("--config-dir=/nonesuch", "--config-dir: is not supported; hydra.searchpath=[FOLDER] adds"),
        ("--nonesuch", "unrecognized arguments: --nonesuch"),
        ("--cfg=nonesuch", "argument --cfg/-c: invalid choice: 'nonesuch'"),
        ("--resolve", "The --resolve flag can only be used"),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(
    tmp_path: Path, override: str, expected: str
) -> None:
    assert expected in sweep(tmp_path, override)


def test_a_multirun_is_checked_as_a_whole_before_its_first_cell(tmp_path: Path) -> None:
    line = sweep(tmp_path, "-m", "memory.limit=1,-1", "backend=fake")
    assert line == "memory.limit: must be 0 or more, got -1"
    assert not (tmp_path / "runs").exists()


GROUPS = sorted(path.name for path in (ROOT / "conf").iterdir() if path.is_dir() and path.name != "hydra")


@pytest.mark.parametrize("group", [name for name in GROUPS if list((ROOT / "conf" / name).glob("*.yaml"))])
def test_no_group_can_be_null(tmp_path: Path, group: str) -> None:
    assert sweep(tmp_path, f"{group}=null") == f"{group}: must name a file in conf/{group}, got null"


@pytest.mark.parametrize("flags", [["--cfg", "job"], ["--info"], ["-m"], ["--help"]])
@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("memory.limt=1", "memory.limt: unknown option; did you mean limit?"),
        ("+a.b=1", "a: unknown option; there are: "),
        ("env=null", "env: must name a file in conf/env, got null"),
        ("tasks.ids=[a", "cannot parse override 'tasks.ids=[a'"),
    ],
)
def test_nothing_is_shown_of_a_wrong_configuration(
    tmp_path: Path, override: str, expected: str, flags: list[str]
) -> None:
    assert sweep(tmp_path, override, *flags).startswith(expected)


def test_what_must_be_given_need_not_be_to_show_a_configuration(tmp_path: Path) -> None:
    done = run("backend=replay", "--cfg", "job", f"paths.runs={tmp_path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "run: ???" in done.stdout


def test_flags_may_stand_anywhere(tmp_path: Path) -> None:
    assert sweep(tmp_path, "memory.limit=1", "-m", "memory.limt=1,2").startswith(
        "memory.limt: unknown option"
    )


def test_the_data_of_all_cells_is_opened_before_the_first_is_played(tmp_path: Path) -> None:
    line = sweep(tmp_path, "backend=fake", "-m", "env.data=starter,nonesuch.jsonl")
    assert "nonesuch.jsonl" in line
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["backend=replay", "backend.run=/nonesuch"], "/nonesuch: is no run directory"),
        (["backend=fake", "backend.script=nonesuch.jsonl"], "backend.script: cannot read nonesuch.jsonl"),
    ],
)
def test_a_backend_without_its_file_makes_no_run(tmp_path: Path, overrides: list[str], expected: str) -> None:
    assert sweep(tmp_path, *overrides).startswith(expected)
    assert not list(tmp_path.glob("runs/*"))


def test_hydra_leaves_nothing_behind(tmp_path: Path) -> None:
    elsewhere, runs = tmp_path / "elsewhere", tmp_path / "runs"
    done = run(
        *(
            "-m",
            "strategy=glob(*)",
            "backend=fake",
            "tasks.first=1",
            "display.mode=off",
            f"paths.runs={runs}",
        ),
        *(f"hydra.run.dir={elsewhere}/a", f"hydra.sweep.dir={elsewhere}/b", "hydra.job.chdir=true"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert sorted(path.name.split("-")[1] for path in runs.iterdir()) == ["reflexion", "retry", "single"]


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"], ["backend=fake", "tasks.first=2"]])
def test_a_reader_that_leaves_is_no_error(tmp_path: Path, arguments: list[str]) -> None:
    """As under `| head`: the end that is read is closed before anything is written."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, str(ROOT / "scripts/sweep.py"), f"paths.runs={tmp_path}", *arguments]
    with os.fdopen(write, "w") as closed:
        done = subprocess.run(
            command, cwd=ROOT, stdout=closed, stderr=subprocess.PIPE, text=True, check=False, timeout=120
        )
    assert done.stderr == ""


def test_control_c_is_one_line() -> None:
    with pytest.raises(SystemExit) as caught, endings.one_line(()):
        raise KeyboardInterrupt
    assert caught.value.code == 130


def test_a_bug_keeps_its_stack_trace() -> None:
    with pytest.raises(KeyError), endings.one_line((ValueError,)):
        raise KeyError("x")
    with pytest.raises(BrokenPipeError), endings.one_line((ValueError,)):
        raise BrokenPipeError  # of another pipe than stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(TASK) + "\n{broken\n", ":2: "),
        (json.dumps({**TASK, "prompt": None}) + "\n", ":1: "),
        (json.dumps(TASK) + "\n" + json.dumps(TASK) + "\n", ":2: "),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(tmp_path: Path, text: str, expected: str) -> None:
    data = tmp_path / "tasks.jsonl"
    data.write_text(text)
    assert f"{data}{expected}" in sweep(tmp_path, "env=humaneval", f"env.data={data}")


def test_a_context_too_small_for_the_examples_is_refused(tmp_path: Path) -> None:
    line = sweep(tmp_path, "backend=fake", "backend.context_tokens=64")
    assert "a context of 64 tokens is too small" in line


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    import sqlite3

    command = ["backend=fake", "tasks.first=1", f"paths.runs={tmp_path / 'runs'}", "strategy=single"]
    subprocess.run(
        [sys.executable, "scripts/sweep.py", *command], cwd=ROOT, check=True, capture_output=True, timeout=120
    )
    (run,) = (tmp_path / "runs").iterdir()
    db = sqlite3.connect(run / "record.sqlite")
    db.execute("PRAGMA user_version = 0")
    db.commit()
    db.close()
    assert "was recorded in format 0" in sweep(tmp_path, *command[:2], command[3])


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    assert "paths.runs: " in sweep(tmp_path, "backend=fake")


def test_no_bubblewrap_is_refused_with_the_fix(tmp_path: Path) -> None:
    line = sweep(tmp_path, "backend=fake", environment={**os.environ, "PATH": str(tmp_path)})
    assert "bubblewrap" in line
    assert "apt-get install bubblewrap" in line
