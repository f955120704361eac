#!/usr/bin/env bash
# End-to-end tests: starts a real control plane and a sandbox, and runs the same checks on both: kubectl, the
# Python client, the original's operators beside ours and instead of ours, its own tests with our Python package,
# and admission webhooks. On the real one, it also replays the recordings and runs the behaviour tests of the API
# and of operators, and the examples (on the sandbox, they are in `make test`).
# Fails if a tool is missing or a check fails; ends all processes that it started.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}"
cd "$root"

say() { echo "e2e: $*" >&2; }
die() { say "$*"; exit 1; }

work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-e2e.XXXXXX")"
pids=()
finish() {
    status=$?
    trap - EXIT
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# await WHAT PID FILE TEXT: waits until the file contains the text.
await() {
    for _ in {1..1200}; do
        grep -qs -- "$4" "$3" && return
        kill -0 "$2" 2>/dev/null || { cat "$3" >&2; die "$1 ended early"; }
        sleep 0.1
    done
    die "$1 is not ready in two minutes"
}

# --- Setup.
python="$(command -v python3 || true)"
[ -n "$python" ] || die "'python3' is not found: install Python 3.9 or newer"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
    die "$("$python" --version) is too old: install Python 3.9 or newer"
package_venv="$(python/build.sh | tail -n1)" || die "cannot build the Python package (see above)"
# Python with our package, which is imported from the sources.
printf '#!/bin/sh\nPYTHONPATH="%s${PYTHONPATH:+:$PYTHONPATH}" exec "%s" "$@"\n' "$root/python" "$package_venv/bin/python" >"$work/package-python"
chmod +x "$work/package-python"
bin="$(tests/control-plane/build.sh | tail -n1)"

requirements="$here/requirements.txt"
venv="$cache/python-client-$(cat "$requirements" <("$python" --version) | sha256sum | cut -c1-12)"
if [ ! -e "$venv/complete" ]; then
    say "installing the Python client into $venv"
    rm -rf "$venv"
    "$python" -m venv "$venv" || die "the module 'venv' of Python is missing: install python3-venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" ||
        die "cannot install the Python client (see above)"
    touch "$venv/complete"
fi

say "building the kopf command"
# With the whole workspace, the dependencies have the same features as for the tests, and are compiled once.
mapfile -t examples < <(sed -nE '/^\[\[bin\]\]/{n;s/^name = "(.*)"$/--bin=\1/p}' examples/rust/Cargo.toml)
cargo build --quiet --workspace --bin kopf "${examples[@]}"
target="$(cargo metadata --format-version 1 --no-deps | "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')"

# The same commands in Python. PYTHONPATH is not exported, because the original must not import our package.
cat >"$work/kopf-python" <<END
#!/bin/sh
PYTHONPATH="$root/python" exec "$package_venv/bin/python" -m kopf "\$@"
END
cat >"$work/operator-python" <<END
#!/bin/sh
exec "$work/kopf-python" "\$@" "$root/examples/python/06-peering/handlers.py"
END
chmod +x "$work/kopf-python" "$work/operator-python"

# --- The two servers.
say "starting the real control plane"
tests/control-plane/run.sh --dir "$work/control-plane" >"$work/control-plane.out" 2>"$work/control-plane.err" &
pids+=($!)
control_plane_pid=$!
say "starting the sandbox"
cargo run --quiet --bin kopf -- sandbox --kubeconfig "$work/sandbox.kubeconfig" >"$work/sandbox.out" 2>&1 &
pids+=($!)
await "the sandbox" $! "$work/sandbox.out" "Ctrl-C ends it"
await "the control plane" "$control_plane_pid" "$work/control-plane.out" "^ready$"

# --- The checks. All run, so that one run shows all failures.
failed=()
check() {
    local what="$1"
    shift
    say "$what"
    if ! "$@" 2>&1 | tee "$work/output"; then
        failed+=("$what")
        { echo "--- $what"; grep -A 12 -E "FAILED|^ERROR|panicked at" "$work/output" | head -n 60; } >>"$work/failures"
    fi
}
# on_control_plane TEST: runs a test of the workspace, which selects its server by the environment.
on_control_plane() {
    # The tests mostly wait for the server, so that more of them than processors run concurrently.
    env KOPF_TEST_API=control-plane KOPF_TEST_KUBECONFIG="$work/control-plane/kubeconfig" \
        KOPF_TEST_ETCD="$(sed -n 's/^etcd=//p' "$work/control-plane.out")" \
        RUST_TEST_THREADS=8 cargo test --quiet --workspace --test "$1"
}
# replicas_without_sharding: the cases of replicas on a server that ignores shard selectors, as it does by default.
replicas_without_sharding() (
    local dir="$work/unsharded" status=0
    tests/control-plane/run.sh --dir "$dir" -- --feature-gates=ShardedListAndWatch=false \
        >"$dir.out" 2>"$dir.err" &
    local pid=$!
    trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null' EXIT
    await "the control plane without sharding" "$pid" "$dir.out" "^ready$"
    env KOPF_TEST_API=control-plane KOPF_TEST_KUBECONFIG="$dir/kubeconfig" \
        KOPF_TEST_ETCD="$(sed -n 's/^etcd=//p' "$dir.out")" \
        RUST_TEST_THREADS=8 cargo test --quiet --workspace --test handling leading:: || status=$?
    exit "$status"
)
# On the sandbox, they are in `make test`. They run first, because their operators serve all resources named
# `things`, which others leave behind.
check "the original's recordings on the real control plane" env PYTHONPATH="$root/python" KOPF_TEST_NATIVE=1 \
    KOPF_TEST_KUBECONFIG="$work/control-plane/kubeconfig" "$package_venv/bin/pytest" -q python/tests -k golden
check "API behaviours on the real control plane" on_control_plane api
check "operators on the real control plane" on_control_plane handling
check "replicas without server-side sharding" replicas_without_sharding
check "the examples on the real control plane" on_control_plane examples
for server in control-plane sandbox; do
    kubeconfig="$work/$server.kubeconfig"
    [ "$server" = sandbox ] || kubeconfig="$work/control-plane/kubeconfig"
    check "kubectl on the $server" tests/e2e/kubectl.sh "$kubeconfig" "$bin/kubectl"
    check "the Python client on the $server" "$venv/bin/python" tests/e2e/python_client.py "$kubeconfig"
    check "the original beside ours on the $server" tests/e2e/peering.sh "$kubeconfig" "$bin/kubectl" \
        "$target/debug/kopf" "$target/debug/06-peering" "$venv/bin/kopf"
    check "the original beside our Python package on the $server" tests/e2e/peering.sh "$kubeconfig" "$bin/kubectl" \
        "$work/kopf-python" "$work/operator-python" "$venv/bin/kopf"
    check "replicas on the $server" tests/e2e/replicas.sh "$kubeconfig" "$bin/kubectl" "$target/debug/06-peering"
    check "the original's own tests with our package on the $server" tests/e2e/original.sh \
        "$kubeconfig" "$bin/kubectl" "$work/package-python" -q
    check "swapping the original and ours on the $server" "$work/package-python" tests/e2e/swapping.py \
        "$kubeconfig" "$work/package-python" "$venv/bin/python"
    # Before the examples, which leave a peering behind.
    check "admission on the $server" tests/e2e/admission.sh "$kubeconfig" "$bin/kubectl" "$target/debug/17-admission"
    check "examples in Python on the $server" env KOPF_TEST_KUBECONFIG="$kubeconfig" \
        "$work/package-python" -m pytest -q examples/python
    check "manifests of the examples on the $server" tests/e2e/deploy.sh "$kubeconfig" "$bin/kubectl" "$target/debug"
done
# RBAC is disabled in the sandbox of this script.
check "exact permissions on the real control plane" "$work/package-python" tests/e2e/rights.py \
    "$work/control-plane/kubeconfig" "$target/debug"
check "installed CRDs on the real control plane" "$work/package-python" tests/e2e/definitions.py \
    "$work/control-plane/kubeconfig"
check "the types of the original's examples" tests/e2e/typing.sh "$package_venv" "$venv/bin/python"

if [ "${#failed[@]}" -gt 0 ]; then
    # Repeated at the end.
    cat "$work/failures" >&2
    for what in "${failed[@]}"; do
        say "FAILED: $what"
    done
    exit 1
fi
say "all passed"
