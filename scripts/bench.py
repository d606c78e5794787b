"""Measure the engine: python scripts/bench.py [group=choice] [option=value] … (see --help).

Each part is a set of ratios within one run, for the machine under it is never the same twice.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console

from engine import config
from scripts import hydra_app
from scripts.benchmarks import efficiency, host


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured.

    Attributes:
        parts: Which parts run, in this order.
        host_episodes: Episodes in flight for the host's cost.
        sequential_calls: Calls of the sequential loop; None takes all.
    """

    parts: tuple[Literal["host", "efficiency"], ...]
    host_episodes: tuple[int, ...]
    sequential_calls: int | None

    def __post_init__(self) -> None:
        if self.sequential_calls is not None and self.sequential_calls < 1:
            raise ValueError(f"sequential_calls: must be 1 or more, got {self.sequential_calls}")
        if any(episodes < 1 for episodes in self.host_episodes):
            raise ValueError(f"host_episodes: must all be 1 or more, got {list(self.host_episodes)}")


def check(resolved: dict[str, Any]) -> tuple[Bench, config.SweepConfig]:
    """The benchmark's own options and the sweep's. Raises ConfigError."""
    options = dict(resolved)
    return config.build(options.pop("bench"), "bench", Bench), config.load(options)


def job(resolved: dict[str, Any]) -> None:
    """Measure and print each part."""
    bench, sweep = check(resolved)
    console = Console()
    for part in bench.parts:
        if part == "host":
            console.print(host.measure(bench.host_episodes), "")
        else:
            console.print(asyncio.run(efficiency.measure(sweep, bench.sequential_calls)), "")


if __name__ == "__main__":
    hydra_app.main("bench", check, job)
