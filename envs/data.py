"""Benchmark records, from local JSONL files or from the hub. Complaints name the record's place."""

import gzip
import hashlib
import io
import json
import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.base import DataError, DataSource

_SUFFIXES = (".jsonl", ".jsonl.gz")
_GZIP = b"\x1f\x8b"
_PROBE_S = 5.0


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


def read_jsonl(path: Path, option: str) -> Iterator[Record]:
    """The records of a JSONL file, gzipped or not, whatever its name; blank lines are skipped.

    Args:
        path: The file.
        option: The option that names it, for a complaint.

    Raises:
        DataError: The file is missing or unreadable, or a line is not a JSON object.
    """
    try:
        with path.open("rb") as raw, _text(raw) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _parse(line, f"{path}:{number}")
    except FileNotFoundError:
        raise DataError(f"{option}: {path} does not exist; give a JSONL file, gzipped or not") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"{option}: {path} cannot be read ({error})") from None


def _text(raw: io.BufferedReader) -> io.TextIOWrapper:
    gzipped = raw.peek(len(_GZIP)).startswith(_GZIP)
    return io.TextIOWrapper(gzip.GzipFile(fileobj=raw) if gzipped else raw, encoding="utf-8-sig")


def _parse(line: str, place: str) -> Record:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place}: not valid JSON ({error})") from None
    except RecursionError:
        raise DataError(f"{place}: not valid JSON (nested too deeply)") from None
    if not isinstance(fields, dict):
        raise DataError(f"{place}: must be a JSON object, got {type(fields).__name__}")
    return Record(fields, place)


def load_files(path: Path, option: str) -> Records:
    """The records of one JSONL file, or of all in a folder in the order of their names.

    Args:
        path: The file or folder.
        option: The option that names it, for a complaint.

    Raises:
        DataError: There are no records, or some are malformed.
    """
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError as error:
        raise DataError(f"{option}: {path} cannot be read ({error})") from None
    if files != [path] and not (files := [file for file in files if file.name.endswith(_SUFFIXES)]):
        raise DataError(f"{option}: {path} is a folder without .jsonl or .jsonl.gz files")
    rows = [record for file in files for record in read_jsonl(file, option)]
    if not rows:
        raise DataError(f"{option}: {path} has no records")
    return _collect(rows, path.name, "")


def load_hub(dataset: str, revision: str, split: str) -> Records:
    """The records of a data set on the Hugging Face hub, or of its local cache. Raises DataError.

    Args:
        dataset: Hub id.
        revision: Commit, tag or branch.
        split: Name of the split.
    """
    import datasets  # takes seconds, and a local file needs none of it

    silence = _hub_is_silent(dataset, revision)
    try:
        # Left to itself, the library would retry for half a minute before it looks into its cache.
        with _quiet("huggingface_hub"), _offline() if silence else nullcontext():
            rows = datasets.load_dataset(dataset, revision=revision, split=split)
    except Exception as error:  # the library lets through whatever the network, the hub and its parsers raise
        cause = silence or error
        reason = " ".join(str(cause).split())[:200]
        raise DataError(
            f"{dataset}@{revision}: the hub does not answer ({type(cause).__name__}: {reason});"
            " pass env.data=FILE"
        ) from None
    records = [Record(dict(row), f"{dataset}:{number}") for number, row in enumerate(rows, start=1)]
    if not records:
        raise DataError(f"{dataset}@{revision}: no records")
    return _collect(records, dataset, revision)


def _hub_is_silent(dataset: str, revision: str) -> Exception | None:
    """Why the hub does not tell of a data set within seconds; None where it does."""
    from huggingface_hub import HfApi

    try:
        HfApi().dataset_info(dataset, revision=revision, timeout=_PROBE_S)
    except Exception as error:  # as above
        return error
    return None


@contextmanager
def _offline() -> Iterator[None]:
    """Let the libraries look into their caches only."""
    import datasets
    from huggingface_hub import constants

    modules: tuple[Any, ...] = (datasets.config, constants)
    before = [module.HF_HUB_OFFLINE for module in modules]
    try:
        for module in modules:
            module.HF_HUB_OFFLINE = True
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value


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
    digest = hashlib.sha256()
    for row in rows:
        digest.update(_canonical(row) + b"\n")
    return Records(tuple(rows), DataSource(name, revision, digest.hexdigest(), len(rows)))


def _canonical(row: Record) -> bytes:
    """The record as bytes that depend on its values alone. Raises DataError."""
    try:
        return json.dumps(row.fields, sort_keys=True, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        character = ascii(error.object[error.start])
        raise DataError(f"{row.place}: holds {character}, half of a surrogate pair; remove it") from None
    except RecursionError:
        raise DataError(f"{row.place}: nested too deeply") from None


def unique(records: Records, name: str) -> Sequence[Record]:
    """The rows, checked for a text field whose values must differ. Raises DataError."""
    seen: dict[str, str] = {}
    for row in records.rows:
        value = row.text(name)
        if value in seen:
            raise DataError(f"{row.place}: {name} {value!r} occurs twice, first at {seen[value]}")
        seen[value] = row.place
    return records.rows
