#!/usr/bin/env bash
# Compiles a project outside of the workspace whose only dependency is `kopf`, and prints its CRDs.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-outside.XXXXXX")"
trap 'rm -rf "$work"' EXIT
cp -r "$here/src" "$work/src"
sed "s#\.\./\.\.#$root#" "$here/Cargo.toml" >"$work/Cargo.toml"
# The dependency versions of this repository.
cp "$root/Cargo.lock" "$work/Cargo.lock"
# The same build settings as in this repository, so that compiled dependencies are shared.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}" CARGO_PROFILE_DEV_DEBUG=line-tables-only
cd "$work"
cargo run --quiet --offline -- crd >crds.yaml
for name in greetings limits plains; do
    grep -q "name: $name.example.com" crds.yaml || { echo "outside: the CRD of $name is missing" >&2; exit 1; }
done
grep -q "self > 0" crds.yaml || { echo "outside: validation rules are missing" >&2; exit 1; }
cargo run --quiet --offline -- --version | grep -q '^outside 0.1.0$'
echo "outside: the project builds with kopf as its only dependency" >&2
