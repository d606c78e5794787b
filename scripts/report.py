"""Print the tables of recorded runs: python scripts/report.py RUN [RUN …]."""

from pathlib import Path

from engine.errors import ReflexionError
from engine.report.tables import print_report
from scripts import endings


def main() -> None:
    """Print the tables of each run named on the command line."""
    parser = endings.Parser(description="Print the tables of recorded runs.")
    parser.add_argument("run", nargs="+", type=Path, help="a run directory")
    with endings.one_line((ReflexionError,)):
        for run in parser.parse_args().run:
            print_report(run)


if __name__ == "__main__":
    main()
