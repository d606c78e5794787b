import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from huggingface_hub import HfApi, constants

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
    records = load_files(path, "env.data")
    assert [dict(row.fields) for row in records.rows] == ROWS
    assert [row.place for row in records.rows] == [f"{path}:1", f"{path}:2"]
    assert (records.source.name, records.source.records) == (name, 2)


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path / "2.jsonl", ROWS[1:])
    write(tmp_path / "1.jsonl.gz", ROWS[:1])
    (tmp_path / "notes.txt").write_text("not data")
    assert [row.text("id") for row in load_files(tmp_path, "env.data").rows] == ["a", "b"]


def test_the_checksum_names_the_records_and_not_the_file(tmp_path: Path) -> None:
    first = load_files(write(tmp_path / "x.jsonl", ROWS), "env.data").source.sha256
    assert first == load_files(write(tmp_path / "y.jsonl.gz", ROWS), "env.data").source.sha256
    assert first != load_files(write(tmp_path / "z.jsonl", ROWS[::-1]), "env.data").source.sha256


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"id": "a"}\n\n{"id": \n', r"rows.jsonl:3: not valid JSON \("),
        (b"[1]\n", "rows.jsonl:1: must be a JSON object, got list"),
        (b'{"id": ' + b"[" * 100_000, r"rows.jsonl:1: not valid JSON \(nested too deeply"),
        (b'{"id": 1' + b"0" * 5000 + b"}", r"rows.jsonl:1: not valid JSON \(Exceeds the limit"),
        (b'{"id": "a"}\n{"id": ["\\ud800"]}\n', r"rows.jsonl:2: holds '\\ud800', half of a surrogate pair"),
        (b'{"\\udfff": 1}\n', r"rows.jsonl:1: holds '\\udfff', half of a surrogate pair"),
        (b"\xff\xfe\n", r"^env.data: /.*rows.jsonl cannot be read \("),
        (b"\n", r"^env.data: /.*rows.jsonl has no records"),
        (b"", r"^env.data: /.*rows.jsonl has no records"),
        (gzip.compress(b"{}" * 99)[:-9], r"^env.data: /.*rows.jsonl cannot be read \("),
        (gzip.compress(b"{}" * 99)[:10] + b"x" * 99, r"^env.data: /.*rows.jsonl cannot be read \("),
    ],
)
def test_a_malformed_file_is_named_with_the_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        load_files(path, "env.data")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"^env.data: /.*none.jsonl does not exist; give a JSONL file, gzipped or not$"
    ):
        load_files(tmp_path / "none.jsonl", "env.data")
    with pytest.raises(DataError, match=r"^env.data: /.* is a folder without .jsonl or .jsonl.gz files"):
        load_files(tmp_path, "env.data")
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(DataError, match=r"^outcomes: .* cannot be read"):
            list(read_jsonl(tmp_path / name, "outcomes"))
        with pytest.raises(DataError, match=r"^env.data: .* cannot be read"):
            load_files(tmp_path / name, "env.data")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_content_says_how_a_file_is_to_be_read_and_not_its_name(
    tmp_path: Path, name: str, mark: str
) -> None:
    text = (mark + json.dumps(ROWS[0])).encode()
    for content in (text, gzip.compress(text)):
        (tmp_path / name).write_bytes(content)
        assert [dict(row.fields) for row in load_files(tmp_path / name, "env.data").rows] == ROWS[:1]


def test_fields_are_checked(tmp_path: Path) -> None:
    records = load_files(write(tmp_path / "rows.jsonl", [*ROWS, {"id": "a"}]), "env.data")
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

    monkeypatch.setattr(HfApi, "dataset_info", lambda *args, **kwargs: None)
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

    monkeypatch.setattr(HfApi, "dataset_info", lambda *args, **kwargs: None)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    complaint = r"^org/set@abc: the hub does not answer \(ConnectionError: no route\); pass env.data=FILE$"
    with pytest.raises(DataError, match=complaint):
        load_hub("org/set", "abc", "test")


def test_a_silent_hub_is_asked_once_and_then_only_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []

    def dataset_info(_: HfApi, dataset: str, **options: Any) -> None:
        asked.append(("hub", options))
        raise TimeoutError("no route")

    def load_dataset(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        asked.append(("cache", (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE)))
        if len(asked) > 2:
            raise ConnectionError("not in the cache")
        return ROWS

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(HfApi, "dataset_info", dataset_info)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert len(load_hub("org/set", "abc", "test").rows) == 2
    assert asked == [("hub", {"revision": "abc", "timeout": 5.0}), ("cache", (True, True))]
    complaint = r"^org/set@abc: the hub does not answer \(TimeoutError: no route\); pass env.data=FILE$"
    with pytest.raises(DataError, match=complaint):
        load_hub("org/set", "abc", "test")
    assert (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE) == (False, False)
