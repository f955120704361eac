#!/usr/bin/env bash
# Applies the manifests of examples/deploy by server-side dry run, and compares them with the programs' output.
# Usage: deploy.sh KUBECONFIG KUBECTL BINARIES
set -uo pipefail

[ $# -eq 3 ] || { echo "usage: deploy.sh KUBECONFIG KUBECTL BINARIES" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-deploy.XXXXXX")"
cp "$1" "$work/kubeconfig" || exit 2
kubectl_binary="$2" binaries="$3"
export KUBECONFIG="$work/kubeconfig" HOME="$work" KUBECACHEDIR="$work/cache"

kubectl() { "$kubectl_binary" --request-timeout=40s "$@"; }
finish() {
    trap - EXIT
    kubectl delete --ignore-not-found --wait=false namespace tenants >/dev/null 2>&1
    rm -rf "$work"
}
trap 'finish; exit 130' INT TERM
trap finish EXIT

source "$here/checks.sh"
explain() { tail -n 5 "$work/answer" | cut -c1-300 | sed 's/^/        > /'; }

# A dry run does not create the namespace for the objects after it.
kubectl create namespace tenants >/dev/null || exit 1
for file in crds tenant-onboarding tenant-nats reviewer; do
    kubectl apply --server-side --dry-run=server --force-conflicts -f "$root/examples/deploy/$file.yaml" >"$work/answer" 2>&1
    verdict "$file.yaml is accepted" $?
done
"$root/examples/deploy/generate.sh" "$binaries" --check >"$work/answer" 2>&1
verdict "the manifests are up to date" $?
summary
