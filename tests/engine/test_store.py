import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from engine.errors import RecordError
from engine.records import (
    Call,
    Choice,
    Completion,
    Message,
    Note,
    Request,
    Sampling,
    Step,
    Tag,
    Trajectory,
    Trial,
    Verdict,
)
from engine.store import Store, read, recorded_calls
from envs.base import Score, Task

TASKS = [Task("a", "task a", kind="easy"), Task("b", "task b")]


def call(tag: Tag, prompt: str | tuple[Message, ...], text: str = "answer") -> Call:
    request = Request(prompt, Sampling(stop=("END",)), tag, tag.seed(0), Choice(("x", "y")))
    return Call(request, Completion(text, "thinking", "length", 9, 4, 5, 100.0, 0.1, 0.2, 0.3))


def trial(number: int = 1, task: str = "a", *, passed: bool = False, text: str = "an action") -> Trial:
    shared = Message("system", "be good")
    return Trial(
        task=task,
        number=number,
        trajectory=Trajectory((Step(1, text, "seen", valid=False, thought="hm"),), "step_limit"),
        outcome={"code": text},
        verdict=Verdict(passed, 0.5, "two of four", {"tests": ["assert f() == 1"]}),
        score=Score(1.0, True, {"why": "so"}),
        note=Note(number, "look twice") if not passed else None,
        calls=(
            call(Tag(task, number, "actor", 1), (shared, Message("user", f"{task} {number}"))),
            call(Tag(task, number, "reflector"), "plain text"),
        ),
        started_at=100.0,
        seconds=2.0,
        model_s=1.0,
        environment_s=0.5,
    )


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store.open(tmp_path / "run", TASKS)
    opened.begin({})
    yield opened
    opened.close()


async def test_a_trial_comes_back_as_it_was(store: Store) -> None:
    await store.commit(trial(1), over=False)
    await store.commit(trial(2, passed=True), over=True)
    first, second = await store.history("a")
    assert (first.trajectory, first.verdict, first.score, first.note, first.outcome) == (
        trial(1).trajectory,
        trial(1).verdict,
        trial(1).score,
        trial(1).note,
        trial(1).outcome,
    )
    assert (second.number, second.note) == (2, None)
    assert await store.history("b") == ()


async def test_every_call_comes_back_and_shared_turns_are_kept_once(store: Store) -> None:
    await store.commit(trial(1), over=False)
    await store.commit(trial(1, "b"), over=False)
    calls = list(recorded_calls(store.folder))
    expected = [call for task in ("a", "b") for call in trial(1, task).calls]
    assert sorted(calls, key=lambda row: (row[0].task, row[0].role)) == [
        (call.request.tag, call.request.prompt, call.completion) for call in expected
    ]
    db = sqlite3.connect(store.folder / "record.sqlite")
    assert db.execute("SELECT count(*) FROM texts WHERE text = 'be good'").fetchone() == (1,)
    db.close()


async def test_episodes_are_open_until_over_and_errors_are_tried_again(store: Store) -> None:
    await store.commit(trial(1), over=False)
    assert store.open_tasks() == {"a", "b"}
    await store.commit(trial(2), over=True)
    await store.fail("b", KeyError("x"))
    assert store.open_tasks() == {"b"}
    assert store.progress().episodes == {"failed": 1, "error": 1}
    assert [row.error for row in read(store.folder).episodes] == [None, "KeyError: 'x'"]
    await store.commit(trial(1, "b", passed=True), over=True)
    assert store.progress().episodes == {"failed": 1, "passed": 1}


async def test_the_same_trial_twice_is_refused_whole(store: Store) -> None:
    await store.commit(trial(1), over=False)
    with pytest.raises(RecordError, match="UNIQUE"):
        await store.commit(trial(1, text="another"), over=True)
    (kept,) = await store.history("a")
    assert kept.outcome == {"code": "an action"}
    assert store.open_tasks() == {"a", "b"}


async def test_text_that_utf8_cannot_hold_costs_only_its_own_characters(store: Store) -> None:
    await store.commit(trial(1, text="lone \ud800 and NUL \0 end"), over=False)
    (kept,) = await store.history("a")
    assert kept.trajectory.steps[0].action == "lone ? and NUL \0 end"


async def test_a_run_continues_where_it_was(tmp_path: Path) -> None:
    first = Store.open(tmp_path / "run", TASKS)
    first.begin({"python": "3"})
    await first.commit(trial(1, passed=True), over=True)
    first.close()
    second = Store.open(tmp_path / "run", TASKS)
    assert second.open_tasks() == {"b"}
    assert second.progress().trials == [(1, True, True)]
    second.close()


def test_only_one_process_may_write(tmp_path: Path) -> None:
    held = Store.open(tmp_path / "run", TASKS)
    script = (
        "from pathlib import Path\nfrom engine.errors import RecordError\nfrom engine.store import Store\n"
        f"try: Store.open(Path({str(tmp_path / 'run')!r}), [])\nexcept RecordError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "another process is working on this run" in done.stdout
    held.close()


def test_another_format_is_refused_with_both_numbers(tmp_path: Path) -> None:
    Store.open(tmp_path / "run", TASKS).close()
    db = sqlite3.connect(tmp_path / "run" / "record.sqlite")
    db.execute("PRAGMA user_version = 99")
    db.commit()
    db.close()
    with pytest.raises(RecordError, match=r"recorded in format 99, but this program reads format 1"):
        Store.open(tmp_path / "run", TASKS)
    with pytest.raises(RecordError, match=r"format 99"):
        read(tmp_path / "run")


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="is no run directory"):
        read(tmp_path)
    (tmp_path / "record.sqlite").write_text("this is a text file, not a database " * 20)
    with pytest.raises(RecordError, match=r"is damaged .*; move the folder away"):
        Store.open(tmp_path, TASKS)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot be written \(Not a directory\); set paths.runs=FOLDER"):
        Store.open(tmp_path / "file" / "run", TASKS)


@pytest.mark.parametrize("damage", ["DROP TABLE calls", "DROP TABLE episodes"])
def test_a_record_that_lacks_a_table_is_one_line(tmp_path: Path, damage: str) -> None:
    Store.open(tmp_path / "run", TASKS).close()
    db = sqlite3.connect(tmp_path / "run" / "record.sqlite")
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute(damage)
    db.commit()
    db.close()
    with pytest.raises(RecordError, match="no such table"):
        read(tmp_path / "run")


async def test_a_full_disk_is_one_line_and_what_was_recorded_stays(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "run", TASKS)
    store.begin({})
    await store.commit(trial(1), over=False)
    store._db.execute("PRAGMA max_page_count = 1")  # SQLite's own way of having no room
    big = trial(2, text="x" * 1_000_000)
    with pytest.raises(RecordError, match="full"):
        await store.commit(big, over=True)
    assert [kept.number for kept in await store.history("a")] == [1]
    store.close()


async def test_a_record_at_rest_can_be_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "run", TASKS)
    store.begin({})
    await store.commit(trial(1), over=False)
    store.close()
    (tmp_path / "run").chmod(0o555)
    try:
        assert len(read(tmp_path / "run").trials) == 1
    finally:
        (tmp_path / "run").chmod(0o755)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"record.sqlite", "lock"}


async def test_an_error_is_kept_with_where_it_came_from(store: Store) -> None:
    try:
        raise KeyError("first\nsecond")
    except KeyError as error:
        await store.fail("a", error)
    assert read(store.folder).episodes[0].error == "KeyError: 'first\\nsecond'"
    db = sqlite3.connect(store.folder / "record.sqlite")
    (trace,) = db.execute("SELECT trace FROM episodes WHERE task = 'a'").fetchone()
    db.close()
    assert "Traceback" in trace
    assert __file__ in trace
