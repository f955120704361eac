#!/usr/bin/env bash
# Builds the extension in place, and prints a virtual environment with the packages for tests, which is
# kept in the cache. The package itself is imported from the sources: set PYTHONPATH=python.
# PYTHON selects the interpreter; by default, the first one that is new enough.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}"
cd "$root"

say() { echo "python: $*" >&2; }
die() { say "$*"; exit 1; }

suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
python="${PYTHON:-}"
for name in python3 python3.13 python3.12 python3.11; do
    if [ -z "$python" ] && suits "$name"; then
        python="$name"
    fi
done
[ -n "$python" ] || die "Python 3.11 or newer is not found: install it, or set PYTHON"
suits "$python" || die "'$python' is not Python 3.11 or newer"

requirements=python/tests/requirements.txt
venv="$cache/python-tests-$(cat "$requirements" <("$python" --version) | sha256sum | cut -c1-12)"
if [ ! -e "$venv/complete" ]; then
    say "installing packages into $venv"
    rm -rf "$venv"
    "$python" -m venv "$venv" || die "the module 'venv' of Python is missing: install python3-venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" ||
        die "the packages cannot be installed (see above)"
    touch "$venv/complete"
fi

"$venv/bin/python" python/stubs.py
say "building the extension"
if [ "$(uname)" = Linux ]; then
    # With the whole workspace, the dependencies have the same features as for `cargo test --workspace`, so they are
    # compiled once. For the package alone, as by maturin, most of them would be compiled again.
    PYO3_PYTHON="$venv/bin/python" cargo build --quiet --workspace --lib >&2 ||
        die "the extension cannot be built (see above)"
    # Replaced by one rename: a running interpreter keeps the file that it has mapped.
    cp "${CARGO_TARGET_DIR:-target}/debug/lib_kopf.so" python/kopf/_kopf.new
    mv python/kopf/_kopf.new python/kopf/_kopf.abi3.so
else
    VIRTUAL_ENV="$venv" "$venv/bin/maturin" develop --quiet --skip-install >&2 ||
        die "the extension cannot be built (see above)"
fi
echo "$venv"
