#!/usr/bin/env bash
# Checks the types of the examples in Python and the historical import paths: by mypy, and by pyright if it can be run.
# Usage: python/check_examples.sh VENV
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$1"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-examples.XXXXXX")"
trap 'rm -rf "$work"' EXIT

# All operators have the same file name: other names make them different modules for one run.
for file in "$root"/examples/python/*/handlers.py; do
    name="$(basename "$(dirname "$file")")"
    cp "$file" "$work/example_${name//-/_}.py"
done
# The names of the historical paths are checked in the same way.
"$venv/bin/python" "$root/python/stubs.py" "$work/example_historical_paths.py"
cd "$work"

# Their functions are partly annotated, as in most operators.
cat >mypy.ini <<END
[mypy]
check_untyped_defs = true
warn_unused_ignores = true
mypy_path = $root/python
cache_dir = $root/.mypy_cache/examples
[mypy-kubernetes.*]
follow_imports = skip
END
"$venv/bin/mypy" --no-error-summary example_*.py

cat >pyrightconfig.json <<END
{"extraPaths": ["$root/python"], "typeCheckingMode": "standard",
 "reportMissingImports": false, "reportMissingModuleSource": false}
END
# The types of that package are stricter than its documented usage.
mkdir -p typings/kubernetes
cat >typings/kubernetes/__init__.pyi <<END
from typing import Any
def __getattr__(name: str) -> Any: ...
END
# The package for pip is only a launcher: it downloads pyright.
if "$venv/bin/pyright" --version >pyright.out 2>&1; then
    "$venv/bin/pyright" --pythonpath "$venv/bin/python"
else
    echo "python: pyright cannot be run, so types are checked by mypy only" >&2
fi
