#!/usr/bin/env bash
# Builds the extension, and runs the tests of the Python package and of its examples.
# Usage: python/test.sh [PYTEST-ARGUMENTS…]; without arguments, types are checked as well.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
venv="$(python/build.sh | tail -n1)"

# The extension is required: its tests are not skipped.
export PYTHONPATH="$root/python" KOPF_TEST_NATIVE=1
if [ $# -eq 0 ]; then
    echo "python: checking types" >&2
    "$venv/bin/mypy" --config-file pyproject.toml
    MYPYPATH=python "$venv/bin/stubtest" kopf._kopf --mypy-config-file pyproject.toml
    python/check_examples.sh "$venv"
    echo "python: checking layers" >&2
    "$venv/bin/lint-imports" --no-cache
fi
exec "$venv/bin/pytest" "$@"
