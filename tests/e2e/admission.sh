#!/usr/bin/env bash
# Tests the example 17-admission with kubectl: denials, mutations, warnings. Its webhooks apply to the whole
# cluster, so it must not run concurrently with other users of the examples' resources.
# Usage: admission.sh KUBECONFIG KUBECTL OPERATOR
# Each check prints "ok" or "FAILED"; the last line counts them.
set -uo pipefail

[ $# -eq 3 ] || { echo "usage: admission.sh KUBECONFIG KUBECTL OPERATOR" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-admission.XXXXXX")"
cp "$1" "$work/kubeconfig" || exit 2
kubectl_binary="$2" operator="$3"
export KUBECONFIG="$work/kubeconfig" HOME="$work" KUBECACHEDIR="$work/cache"
ns="e2e-admission-$(printf %05x $((RANDOM * 32 + RANDOM % 32)))"
configurations="validatingwebhookconfiguration,mutatingwebhookconfiguration"

kubectl() { "$kubectl_binary" --request-timeout=40s "$@"; }

pid="" second=""
finish() {
    trap - EXIT
    [ -z "$second" ] || { kill -9 "$second" && wait "$second"; } 2>/dev/null
    [ -z "$pid" ] || { kill -9 "$pid" && wait "$pid"; } 2>/dev/null
    kubectl delete --ignore-not-found "$configurations" auto.kopf.dev >/dev/null 2>&1
    kubectl delete --ignore-not-found clusterrolebinding "$ns" >/dev/null 2>&1
    # Waits, so that its objects do not affect the operators of the next checks.
    "$kubectl_binary" delete --ignore-not-found --timeout=60s namespace "$ns" >/dev/null 2>&1
    rm -rf "$work"
}
trap 'finish; exit 130' INT TERM
trap finish EXIT

source "$here/checks.sh"
explain() {
    tail -n 5 "$work/answer" | cut -c1-300 | sed 's/^/        > /'
    end_of_log "$work/operator.log"
}
# says WORDS COMMAND…: kubectl succeeds, and its output contains these words.
says() {
    local words="$1"
    shift
    kubectl --namespace "$ns" "$@" >"$work/answer" 2>&1 && grep -qF -- "$words" "$work/answer"
}
# denied WORDS COMMAND…: kubectl fails, and its output contains these words.
denied() {
    local words="$1"
    shift
    ! kubectl --namespace "$ns" "$@" >"$work/answer" 2>&1 && grep -qF -- "$words" "$work/answer"
}
# shows PATH VALUE: the object has this value.
shows() { [ "$(kubectl --namespace "$ns" get kex kopf-example-1 --output jsonpath="$1")" = "$2" ]; }
logged() { grep -qF -- "$1" "$work/operator.log"; }
# webhooks KIND COUNT: the configuration has this number of webhooks.
webhooks() {
    [ "$(kubectl get "$1" auto.kopf.dev --output jsonpath='{.webhooks[*].name}' | wc -w)" -eq "$2" ]
}
# asked: succeeds if the webhooks are called; a configuration takes effect with a delay.
asked() {
    denied "This field is wrong." create --dry-run=server -f - <<'OBJECT'
{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "probe"}, "spec": {"field": "wrong"}}
OBJECT
}

kubectl create namespace "$ns" >/dev/null || exit 1
kubectl create clusterrolebinding "$ns" --clusterrole cluster-admin --user intern >/dev/null || exit 1
kubectl apply -f "$root/examples/crd.yaml" >/dev/null 2>&1 || exit 1
kubectl wait --for=condition=Established crd/kopfexamples.kopf.dev --timeout=30s >/dev/null || exit 1

# A peering object of other checks would pause the second copy.
"$operator" run --standalone --all-namespaces --log-format plain >"$work/operator.log" 2>&1 &
pid=$!
within 30 webhooks validatingwebhookconfiguration 3
verdict "validating webhooks are configured" $?
within 30 webhooks mutatingwebhookconfiguration 1
verdict "the mutating webhook is configured" $?
within 30 asked
verdict "a creation is denied with the message, also in a dry run" $?

says "Warning: the value is the one from the examples" apply -f - < <(
    sed '/duration: /d' "$root/examples/obj.yaml")
verdict "a creation is admitted with a warning" $?
shows '{.spec.duration}' 1m
verdict "missing fields are set" $?
within 10 shows '{.metadata.labels.somelabel}' somevalue && ! shows '{.metadata.labels.creator}' ''
verdict "a label is added, and others are kept" $?

denied 'admission webhook "check.auto.kopf.dev" denied the request: This field is wrong.' \
    patch kex kopf-example-1 --type merge --patch '{"spec": {"field": "wrong"}}'
verdict "a change is denied" $?
shows '{.spec.field}' value
verdict "a denied change is not stored" $?
kubectl --namespace "$ns" patch kex kopf-example-1 --type merge --patch '{"spec": {"field": "wrong"}}' -v 8 \
    >"$work/answer" 2>&1
grep -qE '"code": ?499' "$work/answer"
verdict "the response has the code of the handler" $?

says "patched" patch kex kopf-example-1 --type merge --patch '{"spec": {"field": "new"}}' --dry-run=server &&
    within 10 logged "Admitted; dry run: true." && shows '{.spec.field}' value
verdict "handlers detect a dry run, which changes nothing" $?
says "patched" patch kex kopf-example-1 --type merge --patch '{"spec": {"field": "new"}}' && shows '{.spec.field}' new
verdict "a change is admitted" $?

denied "Nothing is broken here." \
    patch kex kopf-example-1 --subresource status --type merge --patch '{"status": {"phase": "Broken"}}'
verdict "a status is denied" $?
says "patched" patch kex kopf-example-1 --subresource status --type merge --patch '{"status": {"phase": "Fine"}}' &&
    shows '{.status.phase}' Fine
verdict "another status is admitted" $?

kubectl --namespace "$ns" annotate kex kopf-example-1 keep=yes >/dev/null 2>&1
denied "intern may not delete kopf-example-1." delete kex kopf-example-1 --as intern
verdict "a deletion of an object with the annotation is denied" $?
kubectl --namespace "$ns" annotate kex kopf-example-1 keep- >/dev/null 2>&1
says "deleted" delete kex kopf-example-1 --as intern
verdict "a deletion without the annotation is admitted" $?

# A review that is nested too deeply for the operator is denied, not passed by an HTTP error. The object
# itself is within the limit of the sandbox.
brackets() { head -c "$1" /dev/zero | tr '\0' "$2"; }
deep() {
    denied "the review is nested deeper than 128 levels" create --dry-run=server --validate=false -f - <<OBJECT
{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "deep"},
 "spec": {"field": $(brackets 125 '[')$(brackets 125 ']')}}
OBJECT
}
deep
verdict "an object that is nested too deeply is denied with the reason" $?

# A second copy takes over the webhooks; when it exits, the first one restores its own.
place() { kubectl get validatingwebhookconfiguration auto.kopf.dev --output jsonpath='{.webhooks[0].clientConfig.url}' 2>/dev/null; }
first="$(place)"
taken() { [ -n "$(place)" ] && [ "$(place)" != "$first" ]; }
returned() { [ "$(place)" = "$first" ]; }
"$operator" run --standalone --all-namespaces --log-format plain >"$work/second.log" 2>&1 &
second=$!
within 30 taken
verdict "a second copy of the operator takes over the webhooks" $?
kill -TERM "$second" && wait "$second"
verdict "the second copy exits successfully" $?
within 30 returned
verdict "the first copy restores its webhooks" $?
kubectl delete validatingwebhookconfiguration auto.kopf.dev >/dev/null
within 30 returned
verdict "a removed configuration is restored" $?
within 30 asked
verdict "the restored webhooks are called" $?

# Requests continue while the operator exits: none of them is rejected.
asking() {
    while [ ! -e "$work/enough" ]; do
        kubectl --namespace "$ns" create --dry-run=server -f - >>"$work/meanwhile" 2>&1 <<'OBJECT'
{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "meanwhile"}, "spec": {"field": "new"}}
OBJECT
    done
}
asking &
asker=$!
sleep 1
kill -TERM "$pid" && wait "$pid"
verdict "the operator exits successfully" $?
pid=""
sleep 1
touch "$work/enough"
wait "$asker"
cp "$work/meanwhile" "$work/answer"
grep -q created "$work/meanwhile" && ! grep -vq created "$work/meanwhile"
verdict "no request is denied while it exits" $?
webhooks validatingwebhookconfiguration 0 && webhooks mutatingwebhookconfiguration 0
verdict "its webhooks are removed" $?
unasked() {
    kubectl --namespace "$ns" create -f - >"$work/answer" 2>&1 <<'OBJECT'
{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "after"}, "spec": {"field": "wrong"}}
OBJECT
}
within 30 unasked
verdict "no webhook is called any more" $?

# Replicas share one certificate: the CA bundle of the configuration fits both of them.
replica() {
    "$operator" run --standalone --all-namespaces --verbose --log-format plain \
        --leader-elect-name op --leader-elect-namespace "$ns" >"$work/$1.log" 2>&1 &
}
bundle() {
    kubectl get validatingwebhookconfiguration auto.kopf.dev \
        --output jsonpath='{.webhooks[0].clientConfig.caBundle}' 2>/dev/null
}
shared() {
    kubectl --namespace "$ns" get secret op-webhook-certificate --output jsonpath='{.data.ca\.crt}' 2>/dev/null
}
# address NAME: of the webhooks of a replica.
address() { sed -n 's/.*Accessing the webhooks at //p' "$work/$1.log" | tail -n 1; }
accepted() {
    bundle | base64 -d >"$work/ca.pem"
    # Any response of the server will do: it is the certificate that matters.
    curl --silent --output /dev/null --cacert "$work/ca.pem" --max-time 10 "$(address "$1")"
}
announced() { [ -n "$(address "$1")" ]; }
replica operator
pid=$!
within 30 announced operator && within 30 webhooks validatingwebhookconfiguration 3
verdict "a replica configures the webhooks" $?
replica second
second=$!
within 30 announced second && within 30 taken
verdict "a second replica takes the webhooks over" $?
[ -n "$(shared)" ] && [ "$(bundle)" = "$(shared)" ]
verdict "the CA bundle is that of the Secret" $?
accepted operator && accepted second
verdict "the certificates of both replicas are accepted" $?
before="$(shared)"
kill -9 "$second" && wait "$second" 2>/dev/null
second=""
replica second
second=$!
within 30 announced second && within 30 accepted second && [ "$(shared)" = "$before" ]
verdict "a restarted replica uses the same certificate" $?
kill -TERM "$second" "$pid"
wait "$second" "$pid"
pid="" second=""

# In a pod of generated manifests, the Service of the pod is announced. Here, an external name leads to this machine.
services() { kubectl get "$1" auto.kopf.dev --output jsonpath='{.webhooks[*].clientConfig.service.name}' 2>/dev/null; }
behind_service() { [ "$(services validatingwebhookconfiguration)" = "op-webhook op-webhook op-webhook" ]; }
# The port of the reference is that of the server, on which Services of generated manifests lead.
kubectl --namespace "$ns" create service externalname op-webhook --external-name localhost >/dev/null
KOPF_WEBHOOK_SERVICE="$ns/op-webhook:9443" "$operator" run --standalone --all-namespaces --log-format plain \
    >"$work/operator.log" 2>&1 &
pid=$!
within 30 behind_service && [ "$(services mutatingwebhookconfiguration)" = op-webhook ]
verdict "the Service of a pod is announced" $?
within 30 asked
verdict "webhooks are called through the Service" $?
says "created" create --dry-run=server -f - <<'OBJECT'
{"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "served"}, "spec": {"field": "new"}}
OBJECT
verdict "a creation is admitted through the Service" $?
kill -TERM "$pid"
wait "$pid"
pid=""
KOPF_WEBHOOK_SERVICE="op-webhook.$ns.svc:443" "$operator" run --standalone --all-namespaces --log-format plain \
    >"$work/operator.log" 2>&1
[ $? -ne 0 ] && logged "must be NAMESPACE/NAME:PORT"
verdict "a malformed Service fails the start with the expected form" $?

summary
