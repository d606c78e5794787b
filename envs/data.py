"""Benchmark records, from local JSONL files or from the hub. Complaints name the record's place."""

import gzip
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.base import DataError, DataSource

_SUFFIXES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a data set.

    Attributes:
        fields: Its values.
        place: Where it stands, for error messages: "FILE:LINE" or "HUB-ID:ROW", counted from 1.
    """

    fields: Mapping[str, Any]
    place: str

    def text(self, name: str) -> str:
        """The value of a field that must be a string. Raises DataError."""
        if name not in self.fields:
            raise DataError(f"{self.place}: field {name!r} is missing")
        value = self.fields[name]
        if not isinstance(value, str):
            raise DataError(f"{self.place}: field {name!r} must be a string, got {type(value).__name__}")
        return value


@dataclass(frozen=True, slots=True)
class Records:
    """All rows of a data set, and where they came from."""

    rows: tuple[Record, ...]
    source: DataSource


def read_jsonl(path: Path) -> Iterator[Record]:
    """The records of a JSONL file (gzipped if its name ends in .gz); blank lines are skipped.

    Raises:
        DataError: The file is missing or unreadable, or a line is not a JSON object.
    """
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as file
        ):
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _parse(line, f"{path}:{number}")
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; give a .jsonl or .jsonl.gz file, or a folder of them"
        ) from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None


def _parse(line: str, place: str) -> Record:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place}: not valid JSON ({error})") from None
    if not isinstance(fields, dict):
        raise DataError(f"{place}: must be a JSON object, got {type(fields).__name__}")
    return Record(fields, place)


def load_files(path: Path) -> Records:
    """The records of one JSONL file, or of all in a folder in the order of their names. Raises DataError."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(_SUFFIXES))
        if not files:
            raise DataError(f"{path}: the folder has no .jsonl or .jsonl.gz file")
    return _collect([record for file in files for record in read_jsonl(file)], path.name, "")


def load_hub(dataset: str, revision: str, split: str) -> Records:
    """The records of a data set on the Hugging Face hub, or of its local cache. Raises DataError.

    Args:
        dataset: Hub id.
        revision: Commit, tag or branch.
        split: Name of the split.
    """
    import datasets  # takes seconds, and a local file needs none of it

    try:
        with _quiet("huggingface_hub"):  # it would report each of its retries
            rows = datasets.load_dataset(dataset, revision=revision, split=split)
    except Exception as error:  # the library lets through whatever the network, the hub and its parsers raise
        reason = " ".join(str(error).split())[:200]
        kind = type(error).__name__
        raise DataError(
            f"{dataset}@{revision}: the hub does not answer ({kind}: {reason}); pass env.data=FILE"
        ) from None
    records = [Record(dict(row), f"{dataset}:{number}") for number, row in enumerate(rows, start=1)]
    return _collect(records, dataset, revision)


@contextmanager
def _quiet(library: str) -> Iterator[None]:
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _collect(rows: Sequence[Record], name: str, revision: str) -> Records:
    if not rows:
        raise DataError(f"{name}: no records")
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row.fields, sort_keys=True, ensure_ascii=False).encode() + b"\n")
    return Records(tuple(rows), DataSource(name, revision, digest.hexdigest(), len(rows)))


def unique(records: Records, name: str) -> Sequence[Record]:
    """The rows, checked for a text field whose values must differ. Raises DataError."""
    seen: dict[str, str] = {}
    for row in records.rows:
        value = row.text(name)
        if value in seen:
            raise DataError(f"{row.place}: {name} {value!r} occurs twice, first at {seen[value]}")
        seen[value] = row.place
    return records.rows
