#!/usr/bin/env bash
# Renders the charts of `manifests --helm` with Helm, and compares the objects with those of `manifests` for the same
# name and namespace: a release must get the same operator. Both languages, with webhooks and leader election.
# Helm is built from its Go module, once, into the cache. Fails if a tool is missing or a check fails.
# Usage: helm.sh OPERATOR PYTHON
#   OPERATOR  a program in Rust with admission handlers
#   PYTHON    a Python interpreter with the Python package
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: helm.sh OPERATOR PYTHON" >&2; exit 2; }
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
operator="$1" python="$2"
version=v3.22.0
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}/helm-$version"
if [ ! -x "$cache/helm" ]; then
    command -v go >/dev/null || { echo "helm: 'go' is not found: install Go" >&2; exit 1; }
    echo "helm: building Helm $version" >&2
    mkdir -p "$cache"
    GOBIN="$cache/building" go install "helm.sh/helm/v3/cmd/helm@$version"
    mv "$cache/building/helm" "$cache/helm"
fi

work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-helm.XXXXXX")"
trap 'rm -rf "$work"' EXIT
export HOME="$work"

# compare TITLE COMMAND ARGUMENTS…: the command prints manifests, or writes a chart.
compare() {
    local title="$1"
    shift
    local chart="$work/$title"
    "$@" --name op --namespace ops --image img:1 --helm "$chart" >/dev/null 2>&1
    "$cache/helm" lint --quiet "$chart"
    "$cache/helm" template rel "$chart" --namespace relns >"$chart.rendered.yaml"
    "$@" --name rel --namespace relns --image img:1 >"$chart.plain.yaml" 2>/dev/null
    "$python" - "$title" "$chart.rendered.yaml" "$chart.plain.yaml" <<'PYTHON'
import sys

import yaml

title, *paths = sys.argv[1:]


def objects(path):
    with open(path, encoding="utf-8") as file:
        listed = [object for object in yaml.safe_load_all(file) if object]
    # Helm creates the namespace, and installs the CRDs of a folder of their own.
    listed = [object for object in listed if object["kind"] not in ("Namespace", "CustomResourceDefinition")]
    return {(object["kind"], object["metadata"]["name"]): object for object in listed}


rendered, plain = map(objects, paths)
assert rendered == plain, f"{title}: {rendered} differ from {plain}"
[container] = rendered["Deployment", "rel"]["spec"]["template"]["spec"]["containers"]
variables = {variable["name"]: variable.get("value") for variable in container["env"]}
service = rendered["Service", "rel-webhook"]
[port] = service["spec"]["ports"]
expected = f"{service['metadata']['namespace']}/{service['metadata']['name']}:{port['port']}"
assert variables["KOPF_WEBHOOK_SERVICE"] == expected == "relns/rel-webhook:443", variables
ports = {port["name"]: port["containerPort"] for port in container["ports"]}
assert ports[port["targetPort"]] == 9443, ports
print(f"ok      the chart of {title} is rendered as its manifests")
PYTHON
}
compare rust "$operator" manifests
compare rust-replicas "$operator" manifests --leader-elect --replicas 2
compare python "$python" -m kopf manifests "$root/examples/python/17-admission/handlers.py"
