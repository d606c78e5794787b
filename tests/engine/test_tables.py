import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from engine.errors import RecordError
from engine.report.summary import summarize
from engine.report.tables import render
from engine.store import CallRow, EpisodeRow, Record, TrialRow

ABOUT: dict[str, Any] = {
    "config": {"strategy": {"name": "reflexion"}},
    "model": {"label": "some-model"},
    "data": {"name": "some-data"},
    "seed": 7,
    "oracle": False,
}
NASTY = ["[/red]x", "[red", "[bold]x[/bold]", "[link=http://x]y", ":smile:", "\\[", "[/]"]


def shown(record: Record, about: dict[str, Any] = ABOUT, name: str = "run-1") -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(render(summarize(Path(name), record), about))
    return console.export_text()


def record(task: str = "t1", error: str | None = None) -> Record:
    return Record(
        [EpisodeRow(task, "", "error" if error else "passed", error), EpisodeRow("t2", "", "open", None)],
        [TrialRow(task, 1, "finished", True, False, False, 0.0, 10.0, 6.0, 3.0)],
        [CallRow(1, "actor", 1000, 400, 30, 0.0, 4.0)],
    )


def test_the_title_says_what_was_run() -> None:
    text = shown(record())
    assert "run-1\n" in text
    assert "reflexion · some-model · some-data · seed 7 · 2 tasks, 1 of them not over yet" in text


def test_an_oracle_is_in_the_title_line() -> None:
    assert "run-1  ORACLE: the evaluator sees the ground truth" in shown(record(), {**ABOUT, "oracle": True})


def test_figures_stand_in_their_rows() -> None:
    rows = [line.split() for line in shown(record()).splitlines()]
    assert ["1", "1", "1", "0", "0", "1", "0", "0", "0", "0", "(0.0%)"] in rows
    assert ["actor", "1", "1,000", "40%", "30", "7.5", "4.00s", "4.00s", "4.0s"] in rows
    assert ["all", "1", "1,000", "40%", "30", "7.5", "4.00s", "4.00s", "10.0s", "6.0s", "3.0s"] in rows


def test_a_run_without_trials_has_tables() -> None:
    assert "Outcomes per trial" in shown(Record([EpisodeRow("t1", "", "open", None)], [], []))


@pytest.mark.parametrize("text", NASTY)
def test_what_was_recorded_is_shown_as_it_stands(text: str) -> None:
    facts = {"strategy": {"name": text}}
    about = {**ABOUT, "config": facts, "model": {"label": text}, "data": {"name": text}, "seed": text}
    calls = [CallRow(1, text, 1, 1, 1, 0.0, 1.0)]
    output = shown(Record(record(text, f"KeyError: {text}").episodes, record(text).trials, calls), about)
    assert f"{text} · {text} · {text} · seed {text}" in output
    assert f"KeyError: {text}" in output
    assert output.count(text) == 7  # four in the title, the role, the task and its error


def test_what_was_recorded_gives_the_terminal_no_commands() -> None:
    output = shown(record("t\x1b[31m", "bell \x07 escape \x1b]0;title\x07 half \ud800 end"))
    assert "t\\x1b[31m" in output
    assert "bell \\x07 escape \\x1b]0;title\\x07 half \\ud800 end" in output
    assert "\x1b" not in output


@pytest.mark.parametrize("key", ["config", "model", "data", "seed", "oracle"])
def test_what_a_manifest_lacks_is_named(key: str) -> None:
    without = {name: value for name, value in ABOUT.items() if name != key}
    empty = {**ABOUT, key: {}} if key not in ("seed", "oracle") else without
    for about in (without, empty):
        with pytest.raises(RecordError, match=rf"^run-1/manifest\.json: is damaged \(no {key}"):
            shown(record(), about)
