#!/usr/bin/env bash
# Renders the charts of `manifests --helm` with Helm, and compares the objects with those of `manifests` for the same
# name and namespace: a release must get the same operator. Both languages, with webhooks and leader election. Then
# installs a chart with all its values on a sandbox with simulated workloads, upgrades it, and uninstalls it.
# Helm is built from its Go module, once, into the cache. Fails if a tool is missing or a check fails.
# Usage: helm.sh OPERATOR PYTHON KOPF
#   OPERATOR  a program in Rust with admission handlers
#   PYTHON    a Python interpreter with the Python package
#   KOPF      the command kopf
set -euo pipefail

[ $# -eq 3 ] || { echo "usage: helm.sh OPERATOR PYTHON KOPF" >&2; exit 2; }
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
operator="$1" python="$2" kopf="$3"
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

# Values that an administrator may set, all at once.
cat >"$work/values.yaml" <<'YAML'
imagePullPolicy: Always
imagePullSecrets: [{name: registry}]
env: [{name: LEVEL, value: "3"}]
envFrom: [{configMapRef: {name: settings, optional: true}}]
extraArgs: [--log-format=json]
volumes: [{name: tmp, emptyDir: {}}]
volumeMounts: [{name: tmp, mountPath: /tmp}]
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm:
  {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/name: rel}}}}]}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
podAnnotations: {example.com/team: a}
podLabels: {team: a}
serviceAccountAnnotations: {example.com/role: cloud}
terminationGracePeriodSeconds: 90
podMonitor: {enabled: true, labels: {release: prometheus}}
serviceMonitor: {enabled: true}
podDisruptionBudget: {enabled: true}
networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {}}], egress: [{ports: [{port: 443}]}]}
YAML
# The kinds of the Prometheus operator, without their schemas.
for kind in PodMonitor ServiceMonitor; do
    plural="$(tr '[:upper:]' '[:lower:]' <<<"$kind")s"
    cat <<YAML
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $plural.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: $kind, plural: $plural}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
YAML
done >"$work/monitors.yaml"
cat >"$work/install.sh" <<'SCRIPT'
set -euo pipefail
helm="$1" chart="$2" values="$3"
said="$("$helm" install rel "$chart" --namespace relns --create-namespace --set replicas=2 2>&1)" &&
    { echo "helm: two replicas without an election are accepted" >&2; exit 1; }
grep -q "set leaderElection to true" <<<"$said" || { echo "$said" >&2; exit 1; }
"$helm" install rel "$chart" --namespace relns --create-namespace --wait --timeout 1m --values "$values" >/dev/null
"$helm" upgrade rel "$chart" --namespace relns --wait --timeout 1m --values "$values" \
    --set replicas=2,leaderElection=true >/dev/null
"$helm" get manifest rel --namespace relns >"$chart.installed.yaml"
"$helm" uninstall rel --namespace relns --wait --timeout 1m >/dev/null
SCRIPT
for language in rust python; do
    "$kopf" sandbox --simulate all -f "$work/monitors.yaml" -- bash "$work/install.sh" \
        "$cache/helm" "$work/$language" "$work/values.yaml" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    for expected in PodMonitor ServiceMonitor PodDisruptionBudget NetworkPolicy --leader-elect-name=rel leases LEVEL; do
        grep -q -e "$expected" "$work/$language.installed.yaml" ||
            { echo "helm: $expected is missing in $language" >&2; exit 1; }
    done
    echo "ok      the chart of $language is installed, upgraded and uninstalled on a sandbox"
done
