#!/usr/bin/env bash
# Builds the wheel into target/wheels, and checks it: its size, its content, and an operator on a sandbox in a
# new virtual environment. PYTHON selects the interpreter.
# With zig (pip install ziglang), the wheel is for manylinux2014; otherwise for the C library of this machine.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
# 10.6 MB are expected: see docs/start/installation.md.
max_bytes=$((12 * 1024 * 1024))

say() { echo "wheel: $*" >&2; }
die() { say "$*"; exit 1; }

python="${PYTHON:-python3}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/build"
"$work/build/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
options=(--profile wheel --out "$work/wheels")
if "$work/build/bin/pip" install --quiet --disable-pip-version-check ziglang 2>/dev/null; then
    options+=(--zig --compatibility manylinux2014)
else
    say "zig is not available: the wheel is for the C library of this machine"
fi
"$python" python/stubs.py
(. "$work/build/bin/activate" && maturin build --quiet "${options[@]}") || die "the wheel cannot be built (see above)"
wheel="$(ls "$work"/wheels/*.whl)"
bytes="$(stat -c %s "$wheel")"
say "$(basename "$wheel"): $bytes bytes"
[ "$bytes" -le "$max_bytes" ] || die "the wheel is larger than $max_bytes bytes"
# The whole list is read: a closed pipe would be an error of zipfile.
files="$("$python" -m zipfile -l "$wheel")"
grep -q THIRD-PARTY <<<"$files" || die "the licence texts of linked crates are missing"
grep -q kopf/_core/actions/execution.pyi <<<"$files" || die "the stubs of historical paths are missing"

"$python" -m venv "$work/try"
"$work/try/bin/pip" install --quiet --disable-pip-version-check "$wheel"
cat > "$work/handlers.py" <<'OPERATOR'
import kopf

@kopf.on.create("kopfexamples")
async def created(**_):
    return "hello"
OPERATOR
cat > "$work/try.py" <<'TRY'
import sys
from kopf.testing import KopfRunner, sandbox

folder, examples = sys.argv[1:]
with sandbox(f"{examples}/crd.yaml", f"{examples}/obj.yaml") as cluster:
    with KopfRunner(["run", "-A", f"{folder}/handlers.py"], timeout=60):
        cluster.wait("kopfexamples.kopf.dev", "kopf-example-1", lambda obj: obj.get("status", {}).get("created") == "hello")
TRY
(cd "$work" && "$work/try/bin/python" try.py "$work" "$root/examples") || die "the installed package does not work (see above)"
mkdir -p target/wheels
cp "$wheel" target/wheels/
say "target/wheels/$(basename "$wheel") works"
