"""The live view of a sweep: a panel on a terminal, plain lines elsewhere."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from engine.profiling.tally import Snapshot


@dataclass(frozen=True, slots=True)
class Display:
    """How a running sweep shows itself. Never on the path of a request.

    Attributes:
        mode: "live" is a panel, "plain" is lines, "off" is nothing; "auto" is live on a terminal, else plain.
        refresh_s: Seconds between two pictures of the panel; at least 0.5.
        line_s: Seconds between two plain lines.
    """

    mode: Literal["auto", "live", "plain", "off"] = "auto"
    refresh_s: float = 0.5
    line_s: float = 15.0

    def __post_init__(self) -> None:
        if self.refresh_s < 0.5:
            raise ValueError(f"refresh_s: must be 0.5 or more, got {self.refresh_s}")
        if self.line_s <= 0:
            raise ValueError(f"line_s: must be above 0, got {self.line_s}")

    async def watch(self, snapshot: Callable[[], Snapshot]) -> None:
        """Show the sweep until cancelled, and once more then."""
        mode = self.mode
        if mode == "auto":
            mode = "live" if sys.stdout and sys.stdout.isatty() else "plain"
        if mode == "live":
            await self._panel(snapshot)
        elif mode == "plain":
            await self._lines(snapshot)

    async def _panel(self, snapshot: Callable[[], Snapshot]) -> None:
        with Live(panel(snapshot()), console=Console(), auto_refresh=False) as live:
            try:
                while True:
                    await asyncio.sleep(self.refresh_s)
                    live.update(panel(snapshot()), refresh=True)
            finally:
                live.update(panel(snapshot()), refresh=True)

    async def _lines(self, snapshot: Callable[[], Snapshot]) -> None:
        try:
            while True:
                await asyncio.sleep(self.line_s)
                print(line(snapshot()), flush=True)
        finally:
            print(line(snapshot()), flush=True)


def panel(now: Snapshot) -> RenderableType:
    """The picture for a terminal."""
    head = Table.grid(padding=(0, 2))
    head.add_row(
        ProgressBar(total=max(now.episodes, 1), completed=now.over, width=30),
        f"{now.over} of {now.episodes} episodes",
        f"{now.under_way} under way",
        Text(f"{now.errors} errors", style="red" if now.errors else "dim"),
        _clock(now),
    )
    trials = Table(box=None, padding=(0, 2), header_style="dim")
    trials.add_column("trial", style="dim")
    numbers = sorted(now.played)
    for number in numbers:
        trials.add_column(str(number), justify="right")
    for name, counts in (("played", now.played), ("passed", now.passed), ("solved", now.correct)):
        trials.add_row(name, *(str(counts[number]) for number in numbers))
    return Group(head, trials if numbers else Text("no trial is over yet", style="dim"), Text(_model(now)))


def line(now: Snapshot) -> str:
    """The same on one line."""
    trials = " · ".join(
        f"{name} {_by_trial(counts)}"
        for name, counts in (("played", now.played), ("passed", now.passed), ("solved", now.correct))
    )
    errors = f" · {now.errors} errors" if now.errors else ""
    return f"{now.over}/{now.episodes} episodes · {trials}{errors} · {_model(now)} · {_clock(now)}"


def _by_trial(counts: Counter[int]) -> str:
    return "+".join(str(counts[number]) for number in sorted(counts)) or "0"


def _model(now: Snapshot) -> str:
    preempted = f", {now.model.preemptions} thrown out of the batch" if now.model.preemptions else ""
    return (
        f"requests {now.model.running} running, {now.model.waiting} waiting · "
        f"{now.tokens_per_s:,.0f} tokens/s · prefix cache {now.cache_hit_rate:.0%} hits, "
        f"KV {now.model.kv_usage:.0%} used{preempted}"
    )


def _clock(now: Snapshot) -> str:
    left = f"about {_duration(now.left_s)} left" if now.left_s is not None else "time left unknown"
    return f"{_duration(now.elapsed_s)} elapsed, {left}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
