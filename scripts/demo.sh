#!/usr/bin/env bash
# From a fresh clone to a first sweep: sets up, runs the starter tasks for three trials, prints the tables.
# Arguments are overrides of the sweep: scripts/demo.sh model=smollm2-135m
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
# Three tests a task instead of six: a model this small gets the later ones wrong more often than its program.
exec .venv/bin/python scripts/sweep.py evaluator.max_tests=3 "$@"
