"""Print the tables of recorded runs: python scripts/report.py RUN [RUN …]."""

import argparse
import sys
from pathlib import Path

from engine.errors import ReflexionError
from engine.report.tables import print_report


def main() -> None:
    """Print the tables of each run named on the command line."""
    parser = argparse.ArgumentParser(description="Print the tables of recorded runs.")
    parser.add_argument("run", nargs="+", type=Path, help="a run directory")
    for run in parser.parse_args().run:
        try:
            print_report(run)
        except ReflexionError as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(2) from error


if __name__ == "__main__":
    main()
