#!/usr/bin/env bash
# Two processes of one operator with a leader election, then with shards: exits, kill -9, a frozen process, and
# Leases that cannot be renewed (on the sandbox). Uses its own namespace.
# Usage: replicas.sh KUBECONFIG KUBECTL OPERATOR
#   OPERATOR: the example 06-peering, in Rust or in Python.
# Each check prints "ok" or "FAILED"; the last line counts them.
set -uo pipefail

[ $# -eq 3 ] || { echo "usage: replicas.sh KUBECONFIG KUBECTL OPERATOR" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-replicas.XXXXXX")"
cp "$1" "$work/kubeconfig" || exit 2
kubectl_binary="$2" operator="$3"
export KUBECONFIG="$work/kubeconfig" HOME="$work" KUBECACHEDIR="$work/cache"
ns="e2e-replicas-$(printf %05x $((RANDOM * 32 + RANDOM % 32)))"

kubectl() { "$kubectl_binary" --request-timeout=30s "$@"; }

pids=()
finish() {
    trap - EXIT
    for pid in ${pids[@]+"${pids[@]}"}; do
        kill -CONT "$pid" 2>/dev/null
        kill -9 "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    kubectl delete --ignore-not-found --wait=false namespace "$ns" >/dev/null 2>&1
    rm -rf "$work"
}
trap 'finish; exit 130' INT TERM
trap finish EXIT

source "$here/checks.sh"
explain() {
    for log in "$work"/*.log; do
        echo "        $log:"
        end_of_log "$log"
    done
}
# start NAME OPTIONS…: starts a replica and sets $started to its process id.
start() {
    local name="$1"
    shift
    POD_ID="$name" "$operator" run --namespace "$ns" --standalone --verbose \
        --leader-elect-name op --leader-elect-namespace "$ns" "$@" >>"$work/$name.log" 2>&1 &
    started=$!
    pids+=("$started")
}
create() {
    kubectl create --namespace "$ns" -f - >/dev/null <<OBJECT
{apiVersion: kopf.dev/v1, kind: KopfExample, metadata: {name: $1}, spec: {}}
OBJECT
}
processed() { grep -qF -- "[$ns/$2] Creation is processed: 1 succeeded; 0 failed." "$work/$1.log"; }
# handles WHO OBJECT OTHER SECONDS: the object is created; WHO handles it in time, and OTHER does not.
handles() {
    create "$2" || return 1
    within "$4" processed "$1" "$2" || return 1
    sleep 1
    ! processed "$3" "$2"
}
holder() { kubectl get --namespace "$ns" leases op --output jsonpath='{.spec.holderIdentity}' 2>/dev/null; }
# holds NAME: succeeds if this replica holds the Lease; if the name is empty, if none does.
holds() {
    case "$(holder)" in
    "$1"_?*) true ;;
    *) [ -z "$1" ] && [ -z "$(holder)" ] ;;
    esac
}
says() { [ "$(grep -cF -- "$2" "$work/$1.log")" -ge "${3:-1}" ]; }
end() { kill "$1" && wait "$1" 2>/dev/null; }

kubectl create namespace "$ns" >/dev/null || exit 1
kubectl apply -f "$root/examples/crd.yaml" >/dev/null || exit 1
served() { kubectl get kopfexamples.kopf.dev --namespace "$ns" >/dev/null 2>&1; }
within 20 served || { echo "the kinds are not served" >&2; exit 1; }
touch "$work/one.log" "$work/two.log"

# --- Leader election.
start one
one=$started
within 20 holds one
verdict "the first replica takes the Lease" $?
start two
two=$started
within 20 says two "Waiting as a standby"
verdict "the second replica waits" $?
handles one a two 20
verdict "only the leader handles" $?

end "$one"
within 10 holds two
verdict "an exit hands over immediately" $?
handles two b one 20
verdict "the other replica handles" $?

start one
one=$started
within 20 says one "Waiting as a standby"
verdict "the first replica is a standby now" $?
kill -9 "$two"
wait "$two" 2>/dev/null
handles one c two 40
verdict "a killed leader is replaced" $?

start two
two=$started
within 20 says two "Waiting as a standby" 2
verdict "a restarted replica is a standby" $?
kill -STOP "$one"
create d
within 40 processed two d
verdict "a frozen leader is replaced" $?
before="$(wc -l <"$work/one.log")"
create e
within 20 processed two e
kill -CONT "$one"
within 20 says one "This replica is not the leader any longer"
verdict "a resumed process detects that it is not the leader" $?
sleep 3
! tail -n "+$before" "$work/one.log" | grep -qE "(Creation is processed|Merge-patching)"
verdict "a resumed process handles and patches nothing" $?

if kubectl get --raw /kopf-sandbox/faults >/dev/null 2>&1; then
    echo '[{"fault": "error", "code": 500, "verbs": ["update"], "kind": "leases"}]' >"$work/faults.json"
    kubectl create --raw /kopf-sandbox/faults -f "$work/faults.json" >/dev/null
    within 20 says two "No handlers are started"
    verdict "a leader that cannot renew stops" $?
    create f
    sleep 5
    ! processed one f && ! processed two f
    verdict "nothing is handled without a Lease" $?
    kubectl delete --raw /kopf-sandbox/faults >/dev/null
    handled_by_either() { processed one f || processed two f; }
    within 40 handled_by_either
    verdict "handling continues when the Lease can be renewed" $?

    # Either replica may have got the Lease.
    echo '[{"fault": "latency", "delay": "5s", "kind": "leases"}]' >"$work/faults.json"
    kubectl create --raw /kopf-sandbox/faults -f "$work/faults.json" >/dev/null
    leader=two standby=one
    if holds one; then leader=one standby=two; fi
    for name in slow-a slow-b slow-c; do
        sleep 4
        handles "$leader" "$name" "$standby" 10
        verdict "a leader with slow renewals handles $name" $?
    done
    kubectl delete --raw /kopf-sandbox/faults >/dev/null
fi

kubectl patch --namespace "$ns" lease op --type=merge -p '{"spec":{"leaseDurationSeconds":3600}}' >/dev/null
restored() { [ "$(kubectl get --namespace "$ns" lease op --output jsonpath='{.spec.leaseDurationSeconds}')" = 15 ]; }
within 20 restored
verdict "the holder restores an edited duration" $?
end "$one"
end "$two"
within 10 holds ""
verdict "the Lease is released on exit" $?

# --- Shards.
start one --shards 4
one=$started
within 20 says one "This replica handles 4 of 4 shards now."
verdict "a single replica has all shards" $?
start two --shards 4
two=$started
within 30 says two "This replica handles 2 of 4 shards now."
verdict "a second one gets half of them" $?
for number in {1..20}; do create "s$number"; done
count() { ls "$work" >/dev/null; grep -cE "\[$ns/s[0-9]+\] Creation is processed" "$work/$1.log"; }
all() { [ $(($(count one) + $(count two))) -eq 20 ]; }
within 30 all
verdict "every object is handled once" $?
[ "$(count one)" -gt 0 ] && [ "$(count two)" -gt 0 ]
verdict "both handle some" $?
kill -9 "$one"
wait "$one" 2>/dev/null
within 60 says two "This replica handles 4 of 4 shards now."
verdict "the shards of a killed replica are taken" $?
end "$two"
no_leases() { [ -z "$(kubectl get --namespace "$ns" leases --selector kopf.dev/shards=4 --output name)" ]; }
within 10 no_leases
verdict "the last replica removes the Leases of the shards" $?

summary
