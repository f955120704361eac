#!/usr/bin/env bash
# Operators with exactly the permissions that `rbac` prints for them, on a server that checks them. Each one runs
# as its service account, and must handle an object without a denied request. Then permissions are removed, and
# the operator must report all missing ones at startup.
# Usage: rights.sh KUBECONFIG KUBECTL BINARIES KOPF
#   BINARIES: the folder with the examples in Rust; KOPF: the `kopf` command of the Python package.
# Each check prints "ok" or "FAILED"; the last line counts them.
set -uo pipefail

[ $# -eq 4 ] || { echo "usage: rights.sh KUBECONFIG KUBECTL BINARIES KOPF" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-rights.XXXXXX")"
cp "$1" "$work/admin" || exit 2
kubectl_binary="$2" binaries="$3" kopf="$4"
export HOME="$work" KUBECACHEDIR="$work/cache"
ns="e2e-rights-$(printf %05x $((RANDOM * 32 + RANDOM % 32)))"

kubectl() { "$kubectl_binary" --kubeconfig "$work/admin" --request-timeout=40s "$@"; }

pid=""
finish() {
    trap - EXIT
    [ -z "$pid" ] || { kill -9 "$pid" && wait "$pid"; } 2>/dev/null
    kubectl delete --ignore-not-found clusterrole,clusterrolebinding "$ns" >/dev/null 2>&1
    kubectl --namespace "$ns" patch kex kopf-example-1 --type merge \
        --patch '{"metadata": {"finalizers": null}}' >/dev/null 2>&1
    kubectl delete --ignore-not-found --wait=false namespace "$ns" >/dev/null 2>&1
    rm -rf "$work"
}
trap 'finish; exit 130' INT TERM
trap finish EXIT

source "$here/checks.sh"
explain() { end_of_log "$work/operator.log"; }
logged() { grep -qF -- "$1" "$work/operator.log"; }
refused() { grep -qiE 'forbidden|not enough permissions|\b403\b' "$work/operator.log"; }
shows() { [ -n "$(kubectl --namespace "$ns" get kex kopf-example-1 --output jsonpath="$1" 2>/dev/null)" ]; }
gone() { ! kubectl --namespace "$ns" get kex kopf-example-1 >/dev/null 2>&1; }

# The kubeconfig of the service account.
login() {
    local token
    token="$(kubectl --namespace "$ns" create token "$ns")" || return 1
    cp "$work/admin" "$work/robot"
    "$kubectl_binary" --kubeconfig "$work/robot" config set-credentials robot --token "$token" >/dev/null &&
        "$kubectl_binary" --kubeconfig "$work/robot" config set-context --current --user robot >/dev/null
}
# start COMMAND…: starts the operator as the service account.
start() {
    KUBECONFIG="$work/robot" "$@" >"$work/operator.log" 2>&1 &
    pid=$!
}
stop() {
    kill "$pid" && wait "$pid"
    pid=""
}
# handled WHAT FIELD ALLOWED COMMAND…: the operator with its own permissions handles an object. The command is
# completed by `rbac` and `run`, and by the files after a dash.
handled() {
    local what="$1" field="$2" allowed="$3" files=()
    shift 3
    local command=("$1")
    shift
    files=("$@")
    local options=(--name "$ns" --namespace "$ns" --serve "$ns" --standalone -f "$root/examples/crd.yaml")
    [ -z "$allowed" ] || options+=(--allow "$allowed")
    kubectl delete --ignore-not-found --namespace "$ns" role,rolebinding "$ns" >/dev/null 2>&1
    kubectl delete --ignore-not-found clusterrole,clusterrolebinding "$ns" >/dev/null 2>&1
    "${command[@]}" rbac "${options[@]}" "${files[@]}" 2>"$work/operator.log" | kubectl apply -f - >/dev/null
    verdict "$what: the roles are accepted" $?
    login || { verdict "$what: login" 1; return; }
    start "${command[@]}" run --namespace "$ns" --standalone --log-format plain "${files[@]}"
    kubectl --namespace "$ns" apply -f "$root/examples/obj.yaml" >/dev/null
    within 40 shows "$field"
    verdict "$what: the object is handled" $?
    kubectl --namespace "$ns" delete --wait=false kex kopf-example-1 >/dev/null
    within 40 gone
    verdict "$what: the object is released" $?
    stop
    ! refused
    verdict "$what: no request is denied" $?
}

kubectl create namespace "$ns" >/dev/null || exit 1
kubectl apply -f "$root/examples/crd.yaml" >/dev/null 2>&1 || exit 1
kubectl wait --for=condition=Established crd/kopfexamples.kopf.dev --timeout=30s >/dev/null || exit 1

handled "01-minimal" '{.status.create_fn}' "" "$binaries/01-minimal"
handled "02-children" '{.status.create_pod}' "create:pods" "$binaries/02-children"
handled "04-events" '{.metadata.annotations.kopf\.zalando\.org/last-handled-configuration}' "create:events" \
    "$binaries/04-events"
handled "05-handlers" '{.metadata.annotations.kopf\.zalando\.org/last-handled-configuration}' "" "$binaries/05-handlers"
handled "07-subhandlers" '{.metadata.annotations.kopf\.zalando\.org/last-handled-configuration}' "" "$binaries/07-subhandlers"
handled "14-daemons" '{.metadata.finalizers}' "" "$binaries/14-daemons"
handled "15-timers" '{.metadata.finalizers}' "" "$binaries/15-timers"
handled "01-minimal in Python" '{.status.create_fn}' "" "$kopf" "$root/examples/python/01-minimal/operator.py"
handled "07-subhandlers in Python" '{.metadata.annotations.kopf\.zalando\.org/last-handled-configuration}' "" "$kopf" "$root/examples/python/07-subhandlers/operator.py"

# All missing permissions are reported at once, with the rules to add.
kubectl --namespace "$ns" delete role,rolebinding "$ns" >/dev/null
start "$binaries/01-minimal" run --namespace "$ns" --standalone --log-format plain
within 20 logged "Add these rules to the roles of the operator"
verdict "missing permissions are reported at the start" $?
for words in "patch kopfexamples.kopf.dev in the namespace" "create events in the namespace" \
    "patch kopfexamples.kopf.dev/status" 'resources: ["kopfexamples/status"]'; do
    logged "$words"
    verdict "the report has: $words" $?
done
stop

summary
