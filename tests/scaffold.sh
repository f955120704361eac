#!/usr/bin/env bash
# Creates a project in each language with `kopf new`, with the sources of this tree, and runs its tests. The
# manifests of the project must equal the output of its own command.
# Usage: scaffold.sh PYTHON; PYTHON is an interpreter with our package and pytest
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: scaffold.sh PYTHON" >&2; exit 2; }
python="$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-scaffold.XXXXXX")"
trap 'rm -rf "$work"' EXIT
cd "$root"

cargo build --quiet --bin kopf
target="$(cargo metadata --format-version 1 --no-deps | "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')"
kopf="$target/debug/kopf"

echo "scaffold: a project in Rust"
"$kopf" new my-operator --path "$work/rust" --kopf-path "$root" >/dev/null
cd "$work/rust"
# The dependency versions of this repository.
cp "$root/Cargo.lock" .
# The same build settings as in this repository, so that compiled dependencies are shared.
export CARGO_TARGET_DIR="$target" CARGO_PROFILE_DEV_DEBUG=line-tables-only
cargo fmt --all --check
cargo test --quiet
cargo clippy --quiet --all-targets -- -D warnings
cargo run --quiet -- manifests --image my-operator:latest --namespace my-operator | diff deploy/operator.yaml -
cargo run --quiet -- crd >crd.yaml
# On a server without the CRD, the program installs it.
cat >"$work/handled.py" <<'END'
import os, subprocess, sys, yaml
from kopf.testing import ClusterClient

client = ClusterClient(os.environ["KUBECONFIG"])
operator = subprocess.Popen([sys.argv[1], "run", "--all-namespaces", "--install-crds"])
try:
    with open("deploy/example.yaml") as file:
        client.create(yaml.safe_load(file))
    client.wait("greetings", "example", lambda body: body.get("status") == {"message": "Hello, world!"})
finally:
    operator.terminate()
    code = operator.wait()
sys.exit(code)
END
"$kopf" sandbox -- "$python" "$work/handled.py" "$target/debug/my-operator" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }

echo "scaffold: a project in Python"
"$kopf" new my-operator --python --path "$work/python" >/dev/null
cd "$work/python"
"$python" -m pytest --quiet
"$python" -m kopf manifests --name my-operator --image my-operator:latest --namespace my-operator handlers.py |
    diff deploy/operator.yaml -

echo "scaffold: existing folders and reserved names are rejected"
! "$kopf" new my-operator --path "$work/rust" 2>/dev/null
! "$kopf" new async --path "$work/other" 2>/dev/null
[ ! -e "$work/other" ]
echo "scaffold: all passed"
