"""The tables of a run's record, and how to open it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import RecordError

VERSION = 1
"""Of the tables below; a run of another version is refused."""

FILE = "record.sqlite"

_TABLES = """
CREATE TABLE processes (          -- one row for each time the run was started or continued
    id INTEGER PRIMARY KEY, started_at REAL NOT NULL, finished_at REAL, software TEXT NOT NULL
) STRICT;
CREATE TABLE episodes (
    task TEXT PRIMARY KEY, position INTEGER NOT NULL, kind TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'passed', 'failed', 'error')),
    error TEXT, trace TEXT        -- of the last error: one line, and where it came from
) STRICT;
CREATE TABLE trials (
    task TEXT NOT NULL REFERENCES episodes, number INTEGER NOT NULL,
    process INTEGER NOT NULL REFERENCES processes,
    ending TEXT NOT NULL, outcome TEXT NOT NULL,
    passed INTEGER NOT NULL, verdict REAL NOT NULL, feedback TEXT NOT NULL, evidence TEXT NOT NULL,
    correct INTEGER NOT NULL, score REAL NOT NULL, detail TEXT NOT NULL,
    note TEXT,
    started_at REAL NOT NULL, seconds REAL NOT NULL, model_s REAL NOT NULL, environment_s REAL NOT NULL,
    PRIMARY KEY (task, number)
) STRICT;
CREATE TABLE steps (
    task TEXT NOT NULL, trial INTEGER NOT NULL, number INTEGER NOT NULL,
    thought TEXT NOT NULL, action TEXT NOT NULL, observation TEXT NOT NULL, valid INTEGER NOT NULL,
    PRIMARY KEY (task, trial, number), FOREIGN KEY (task, trial) REFERENCES trials
) STRICT;
CREATE TABLE texts (              -- prompts share most of their turns: each turn is kept once
    id INTEGER PRIMARY KEY, sha256 BLOB NOT NULL UNIQUE, text TEXT NOT NULL
) STRICT;
CREATE TABLE calls (
    task TEXT NOT NULL, trial INTEGER NOT NULL,
    role TEXT NOT NULL, step INTEGER NOT NULL, sample INTEGER NOT NULL,
    prompt TEXT NOT NULL,         -- JSON: [[role, texts.id], ...], or [texts.id] for plain text
    sampling TEXT NOT NULL, grammar TEXT, seed INTEGER NOT NULL,
    text TEXT NOT NULL, reasoning TEXT NOT NULL, finish_reason TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, generated_tokens INTEGER NOT NULL,
    started_at REAL NOT NULL, queued_s REAL NOT NULL, first_token_s REAL NOT NULL, total_s REAL NOT NULL,
    PRIMARY KEY (task, trial, role, step, sample), FOREIGN KEY (task, trial) REFERENCES trials
) STRICT;
"""


@contextmanager
def reported(folder: Path) -> Iterator[None]:
    """Turns whatever SQLite complains of into a RecordError that names the run."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise RecordError(
            f"{folder}: cannot be read or written ({error}); nothing recorded is lost. "
            "Make room or set paths.runs=FOLDER"
        ) from error
    except sqlite3.DatabaseError as error:
        raise RecordError(f"{folder}: {FILE} is damaged ({error}); move the folder away") from error


def connect(folder: Path) -> sqlite3.Connection:
    """A connection for the one writer; makes the tables of a new run. Raises RecordError."""
    with reported(folder):
        # The event loop's thread opens it; while episodes are played only the writer's own thread uses it.
        connection = sqlite3.connect(folder / FILE, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    _check_version(connection, folder)
    return connection


def connect_read_only(run: Path) -> sqlite3.Connection:
    """A connection for reports. Raises RecordError."""
    path = run / FILE
    if not path.is_file():
        raise RecordError(f"{run}: is no run directory (it has no {FILE})")
    # Without a write-ahead log nobody is writing, and a folder that cannot be written needs to be told so.
    resting = "" if path.with_name(f"{FILE}-wal").exists() else "&immutable=1"
    with reported(run):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{resting}", uri=True)
    _check_version(connection, run)
    return connection


def _check_version(connection: sqlite3.Connection, folder: Path) -> None:
    with reported(folder):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        connection.close()
        raise RecordError(
            f"{folder}: was recorded in format {version}, but this program reads format {VERSION}; "
            "use the program version that its manifest.json names, or move the folder away"
        )
