"""The tables of a run, for a terminal."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from engine import manifest, store
from engine.errors import RecordError
from engine.report.summary import Cost, Outcomes, Summary, summarize

_LEAST_WIDTH = 100


def print_report(run: Path) -> None:
    """Print the tables of a recorded run. Raises RecordError."""
    width = max(shutil.get_terminal_size().columns, _LEAST_WIDTH) if not sys.stdout.isatty() else None
    Console(width=width).print(render(summarize(run, store.read(run)), manifest.read(run)))


def render(summary: Summary, about: Mapping[str, Any]) -> RenderableType:
    """All tables of a run.

    Args:
        summary: The figures.
        about: The run's manifest.

    Raises:
        RecordError: The manifest lacks something.
    """
    parts: list[RenderableType] = ["", *_title(summary, about), ""]
    parts += [_outcome_table(summary), Text(_OUTCOME_NOTE, style="dim"), ""]
    parts += [_cost_table(summary), Text(_COST_NOTE, style="dim"), ""]
    parts += [_role_table(summary)]
    if summary.errors:
        parts += ["", _errors(summary)]
    return Group(*parts)


_OUTCOME_NOTE = (
    "passed: the evaluator's verdict; correct: the scorer's ground truth; T/F P/N: verdict against truth;\n"
    "solved so far: tasks whose latest trial up to this one is correct"
)
_COST_NOTE = (
    "wall: time with at least one such trial under way; tokens/s: generated tokens over the time with a\n"
    "call under way; model, env: seconds summed over trials, waiting for the model or in the environment."
)


def _title(summary: Summary, about: Mapping[str, Any]) -> list[RenderableType]:
    def fact(*keys: str) -> Any:
        node: Any = about
        for key in keys:
            if not isinstance(node, Mapping) or key not in node:
                place = summary.run / "manifest.json"
                raise RecordError(f"{place}: is damaged (no {'.'.join(keys)}); move the folder away")
            node = node[key]
        return node

    oracle = "  ORACLE: the evaluator sees the ground truth" if fact("oracle") else ""
    state = f", {summary.open} of them not over yet" if summary.open else ""
    return [
        _data(f"{summary.run.name}{oracle}", style="bold"),
        _data(
            f"{fact('config', 'strategy', 'name')} · {fact('model', 'label')} · {fact('data', 'name')} · "
            f"seed {fact('seed')} · {summary.tasks} tasks{state}"
        ),
    ]


def _outcome_table(summary: Summary) -> Table:
    table = _table("Outcomes per trial", "trial")
    for name in ("attempted", "passed", "correct", "TP", "FP", "FN", "TN", "notes", "solved so far"):
        table.add_column(name, justify="right")
    for row in summary.outcomes:
        table.add_row(*map(str, _outcome_cells(row)), f"{row.solved_so_far} ({_share(row, summary)})")
    return table


def _outcome_cells(row: Outcomes) -> tuple[int, ...]:
    return (
        *(row.number, row.attempted, row.passed, row.correct),
        *(row.true_positives, row.false_positives, row.false_negatives, row.true_negatives),
        row.notes,
    )


def _share(row: Outcomes, summary: Summary) -> str:
    return f"{row.solved_so_far / summary.tasks:.1%}"


def _cost_table(summary: Summary) -> Table:
    table = _table("Cost per trial", "trial")
    _add_cost_columns(table)
    for name in ("wall", "model", "env"):
        table.add_column(name, justify="right")
    for number, cost in (*summary.cost_by_trial.items(), ("all", summary.total)):
        table.add_row(
            str(number),
            *_cost_cells(cost),
            f"{cost.wall_s:,.1f}s",
            f"{cost.model_s:,.1f}s",
            f"{cost.environment_s:,.1f}s",
        )
    return table


def _role_table(summary: Summary) -> Table:
    table = _table("Cost per role", "role")
    _add_cost_columns(table)
    table.add_column("wall", justify="right")
    for role, cost in summary.cost_by_role.items():
        table.add_row(_data(role), *_cost_cells(cost), f"{cost.wall_s:,.1f}s")
    return table


def _add_cost_columns(table: Table) -> None:
    for name in ("calls", "prompt", "cached", "generated", "tokens/s", "p50", "p95"):
        table.add_column(name, justify="right")


def _cost_cells(cost: Cost) -> tuple[str, ...]:
    cached = cost.cached_tokens / cost.prompt_tokens if cost.prompt_tokens else 0.0
    return (
        f"{cost.calls:,}",
        f"{cost.prompt_tokens:,}",
        f"{cached:.0%}",
        f"{cost.generated_tokens:,}",
        f"{cost.tokens_per_s:,.1f}",
        f"{cost.p50_s:.2f}s",
        f"{cost.p95_s:.2f}s",
    )


def _errors(summary: Summary) -> RenderableType:
    table = _table("Errors (neither pass nor fail; the same command plays these tasks again)", "task")
    table.add_column("what happened")
    for task, message in summary.errors:
        table.add_row(_data(task), _data(message))
    return table


def _data(text: str, style: str = "") -> Text:
    """Recorded text as it stands: nothing in it is markup, or a command to the terminal."""
    shown = (char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)
    return Text("".join(shown), style=style)


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column(first, style="dim")
    return table
