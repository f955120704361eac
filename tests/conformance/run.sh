#!/usr/bin/env bash
# Builds the programs once, and runs Kubernetes' own specs on sandboxes. Options are those of run.py.
# With OTHERS=1, the integration tests of controller-runtime and of kube-rs run instead.
# KOPF is the kopf command.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}"
kopf="$(realpath "${KOPF:?the path of the kopf command}")"
say() { echo "conformance: $*" >&2; }

command -v python3 >/dev/null || { say "'python3' is not found: install Python 3.10 or newer"; exit 1; }
logs="$cache/conformance/logs"
if [ -n "${OTHERS:-}" ]; then
    exec python3 "$here/others.py" --kopf "$kopf" --logs "$logs"
fi
suite="$("$here/build.sh" | tail -n1)"
kubectl="$("$here/../control-plane/build.sh" | tail -n1)/kubectl"

status=0
python3 "$here/run.py" --kopf "$kopf" --e2e "$suite/e2e.test" --kubectl "$kubectl" --logs "$logs" "$@" || status=1
say "outputs of the tests: $logs"
exit "$status"
