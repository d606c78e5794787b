import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from envs.base import DataError
from envs.data import load_files, load_hub, read_jsonl, unique

ROWS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_a_file_is_read_with_its_places(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, ROWS)
    records = load_files(path)
    assert [dict(row.fields) for row in records.rows] == ROWS
    assert [row.place for row in records.rows] == [f"{path}:1", f"{path}:2"]
    assert (records.source.name, records.source.records) == (name, 2)


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path / "2.jsonl", ROWS[1:])
    write(tmp_path / "1.jsonl.gz", ROWS[:1])
    (tmp_path / "notes.txt").write_text("not data")
    assert [row.text("id") for row in load_files(tmp_path).rows] == ["a", "b"]


def test_the_checksum_names_the_records_and_not_the_file(tmp_path: Path) -> None:
    first = load_files(write(tmp_path / "x.jsonl", ROWS)).source.sha256
    assert first == load_files(write(tmp_path / "y.jsonl.gz", ROWS)).source.sha256
    assert first != load_files(write(tmp_path / "z.jsonl", ROWS[::-1])).source.sha256


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"id": "a"}\n\n{"id": \n', r"rows.jsonl:3: not valid JSON \("),
        (b"[1]\n", "rows.jsonl:1: must be a JSON object, got list"),
        (b"\xff\xfe\n", r"rows.jsonl: cannot be read \("),
        (b"\n", "rows.jsonl: no records"),
    ],
)
def test_a_malformed_file_is_named_with_the_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        load_files(path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"none.jsonl: no such file; give a .jsonl or .jsonl.gz file, or a folder"
    ):
        load_files(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match=r"the folder has no .jsonl or .jsonl.gz file"):
        load_files(tmp_path)
    (tmp_path / "bad.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match=r"bad.jsonl.gz: cannot be read"):
        list(read_jsonl(tmp_path / "bad.jsonl.gz"))


def test_fields_are_checked(tmp_path: Path) -> None:
    records = load_files(write(tmp_path / "rows.jsonl", [*ROWS, {"id": "a"}]))
    with pytest.raises(DataError, match=r"rows.jsonl:1: field 'prompt' is missing"):
        records.rows[0].text("prompt")
    with pytest.raises(DataError, match=r"rows.jsonl:1: field 'n' must be a string, got int"):
        records.rows[0].text("n")
    with pytest.raises(DataError, match=r"rows.jsonl:3: id 'a' occurs twice, first at .*rows.jsonl:1"):
        unique(records, "id")


def test_the_hub_is_asked_for_the_pinned_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load_dataset(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        asked.append((args, kwargs))
        return ROWS

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    records = load_hub("org/set", "abc123", "test")
    assert asked == [(("org/set",), {"revision": "abc123", "split": "test"})]
    assert (records.source.name, records.source.revision, records.rows[1].place) == (
        "org/set",
        "abc123",
        "org/set:2",
    )


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no\nroute")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    complaint = r"^org/set@abc: the hub does not answer \(ConnectionError: no route\); pass env.data=FILE$"
    with pytest.raises(DataError, match=complaint):
        load_hub("org/set", "abc", "test")
