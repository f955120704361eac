#!/usr/bin/env bash
# Runs the steps of docs/start/getting-started*.md: writes their files, runs their commands, and waits for the handler in each run.
# Usage: tests/guide/getting-started.sh [rust|python]…; both by default
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-guide.XXXXXX")"
trap 'rm -rf "$work"' EXIT
# The page expects the repository next to the new project.
ln -s "$root" "$work/kopf"
# Compiled dependencies are reused by the next run.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}/guide"

for section in "${@:-rust python}"; do
    for name in $section; do
        echo "guide: section $name" >&2
        page="$root/docs/start/getting-started.md"
        if [ "$name" = rust ]; then page="$root/docs/start/getting-started-rust.md"; fi
        python3 "$root/tests/guide/steps.py" "$page" "$name" >"$work/$name.sh"
        (cd "$work" && bash "$work/$name.sh")
    done
done
echo "guide: all steps passed" >&2
