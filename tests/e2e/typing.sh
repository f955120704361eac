#!/usr/bin/env bash
# Checks the types of the original's examples with our package: mypy (strict) and pyright must report
# nothing that they do not report with the original package.
# Usage: typing.sh VENV ORIGINAL
#   VENV: a virtual environment with mypy and pyright; ORIGINAL: a Python with the original kopf.
# The examples are those that `original.sh` has downloaded into $KOPF_CACHE.
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: typing.sh VENV ORIGINAL" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}"
venv="$1" original="$2"
examples="$cache/original-1.45.2/examples"
[ -d "$examples" ] || { echo "typing: $examples is not found: run original.sh first" >&2; exit 1; }

work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-typing.XXXXXX")"
trap 'rm -rf "$work"' EXIT
cd "$work"
# Many files have the same name: unique names make them different modules for one run.
for file in "$examples"/*/*.py; do
    name="$(basename "$(dirname "$file")")_$(basename "$file")"
    cp "$file" "$work/e_${name//-/_}"
done
# The types of other packages are ignored: they differ between the environments.
for package in kubernetes pykube pytest; do
    mkdir -p "typings/$package"
    printf 'from typing import Any\ndef __getattr__(name: str) -> Any: ...\n' >"typings/$package/__init__.pyi"
done

# Positions and codes of the diagnostics, one per line.
# mypy PYTHON PATH
by_mypy() {
    cat >mypy.ini <<END
[mypy]
strict = true
ignore_missing_imports = true
mypy_path = typings$2
cache_dir = $work/cache
END
    { "$venv/bin/mypy" --python-executable "$1" --no-error-summary e_*.py || true; } |
        sed -n 's/^\(e_[^:]*:[0-9]*\): error: .*\[\([a-z-]*\)\]$/\1 \2/p' | sort
}
# pyright PYTHON PATHS
by_pyright() {
    cat >pyrightconfig.json <<END
{"typeCheckingMode": "standard", "extraPaths": [$2], "include": ["."],
 "reportMissingImports": false, "reportMissingModuleSource": false}
END
    { "$venv/bin/pyright" --pythonpath "$1" --outputjson || true; } | "$venv/bin/python" -c '
import json, os, sys
for found in json.load(sys.stdin)["generalDiagnostics"]:
    file, line = os.path.basename(found["file"]), found["range"]["start"]["line"] + 1
    print(f"{file}:{line}", found.get("rule", found["message"]))
' | sort
}

failed=0
# compare CHECKER
compare() {
    if [ -n "$(comm -23 "$1.ours" "$1.theirs")" ]; then
        failed=1
        echo "FAILED  $1: reported with our package only:"
        comm -23 "$1.ours" "$1.theirs"
    else
        echo "ok      $1: $(wc -l <"$1.ours") diagnostics, with the original $(wc -l <"$1.theirs")"
    fi
}
by_mypy "$venv/bin/python" ":$root/python" >mypy.ours
by_mypy "$original" "" >mypy.theirs
compare mypy
if "$venv/bin/pyright" --version >/dev/null 2>&1; then
    by_pyright "$venv/bin/python" "\"$root/python\"" >pyright.ours
    by_pyright "$original" "" >pyright.theirs
    compare pyright
else
    echo "typing: cannot run pyright" >&2
fi
exit "$failed"
