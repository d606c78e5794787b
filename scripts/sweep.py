"""Play a sweep: python scripts/sweep.py [group=choice] [option=value] … (see --help)."""

import asyncio
import contextlib
import signal
from typing import Any

from engine import config
from engine.report.tables import print_report
from engine.run import Finished, check, run
from scripts import hydra_app


def job(resolved: dict[str, Any]) -> int:
    """Play one cell and print its tables; 1 if an episode ended in an error, else 0."""
    try:
        finished = asyncio.run(_until_terminated(resolved))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped: every recorded trial is kept, and the same command goes on from there", flush=True)
        raise SystemExit(130) from None
    if finished.played:
        print_report(finished.folder)
    else:
        print(
            f"run {finished.folder} is finished, there is nothing to do; "
            f"python scripts/report.py {finished.folder} prints its tables",
            flush=True,
        )
    return min(finished.errors, 1)


async def _until_terminated(resolved: dict[str, Any]) -> Finished:
    """Play; a polite kill stops as cleanly as Ctrl-C does."""
    task = asyncio.ensure_future(run(config.load(resolved), resolved))
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


if __name__ == "__main__":
    hydra_app.main("sweep", config.load, job, check)
