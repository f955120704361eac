#!/usr/bin/env bash
# Builds what is needed, once, and runs the test suites of others on sandboxes: Kubernetes' own specs, then
# the integration tests of controller-runtime and of kube-rs. Options are those of run.py; with --only or
# --server control-plane, Kubernetes' specs alone run.
# KOPF is the kopf command.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}"
kopf="$(realpath "${KOPF:?the path of the kopf command}")"
say() { echo "conformance: $*" >&2; }

command -v python3 >/dev/null || { say "'python3' is not found: install Python 3.10 or newer"; exit 1; }
suite="$("$here/build.sh" | tail -n1)"
kubectl="$("$here/../control-plane/build.sh" | tail -n1)/kubectl"
logs="$cache/conformance/logs"

status=0
python3 "$here/run.py" --kopf "$kopf" --e2e "$suite/e2e.test" --kubectl "$kubectl" --logs "$logs" "$@" || status=1
case " $* " in
    *" --only "* | *" control-plane "*) ;;
    *) python3 "$here/others.py" --kopf "$kopf" --logs "$logs" || status=1 ;;
esac
say "outputs of the tests: $logs"
exit "$status"
