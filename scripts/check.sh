#!/usr/bin/env bash
# Checks format, style, types and the direction of imports. Runs every tool; fails if any of them did.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh

failed=()
check() {
    local name=$1
    shift
    echo "== $name"
    "$@" || failed+=("$name")
}
check format .venv/bin/python -m ruff format --check .
check lint .venv/bin/python -m ruff check .
check types .venv/bin/python -m mypy
check imports .venv/bin/lint-imports --no-logo

if ((${#failed[@]})); then
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "all checks passed"
