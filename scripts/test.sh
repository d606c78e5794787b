#!/usr/bin/env bash
# Runs the tests, after setting up .venv where that is needed. Arguments go to pytest: scripts/test.sh -x -k memory
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
exec .venv/bin/python -m pytest "$@"
