#!/usr/bin/env bash
# Tests peering of an operator of this project with one of the original for the same objects: priorities, and
# the commands of both. Uses its own namespace.
# Usage: peering.sh KUBECONFIG KUBECTL KOPF OPERATOR ORIGINAL
#   KOPF: our command; OPERATOR: our example 06-peering, in Rust or in Python; ORIGINAL: the original's command.
# Each check prints "ok" or "FAILED"; the last line counts them.
set -uo pipefail

[ $# -eq 5 ] || { echo "usage: peering.sh KUBECONFIG KUBECTL KOPF OPERATOR ORIGINAL" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-peering.XXXXXX")"
cp "$1" "$work/kubeconfig" || exit 2
kubectl_binary="$2" kopf="$3" operator="$4" original="$5"
export KUBECONFIG="$work/kubeconfig" HOME="$work" KUBECACHEDIR="$work/cache"
ns="e2e-peering-$(printf %05x $((RANDOM * 32 + RANDOM % 32)))"

kubectl() { "$kubectl_binary" --request-timeout=30s "$@"; }

pids=()
finish() {
    trap - EXIT
    for pid in ${pids[@]+"${pids[@]}"}; do
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
# said LOG WORDS [TIMES]: succeeds if the log contains the words at least this many times.
said() { [ "$(grep -cF -- "$2" "$work/$1.log")" -ge "${3:-1}" ]; }
# handles WHO OBJECT OTHER: the object is created; WHO handles it, and OTHER does not.
handles() {
    kubectl create --namespace "$ns" -f - >/dev/null <<OBJECT || return 1
{apiVersion: kopf.dev/v1, kind: KopfExample, metadata: {name: $2}, spec: {}}
OBJECT
    within 20 said "$1" "[$ns/$2] Creation is processed: 1 succeeded; 0 failed." || return 1
    sleep 1
    ! said "$3" "[$ns/$2]"
}
peers() { kubectl get --namespace "$ns" kopfpeerings.kopf.dev default --output jsonpath='{.status}'; }
# records NAMES…: succeeds if there are exactly these records.
records() {
    local found
    found="$(peers | tr '{,' '\n\n' | sed -n 's/^"\([^"]*\)":$/\1/p' | sort | tr '\n' ' ')"
    [ "$found" = "$(printf '%s\n' "$@" | sort | tr '\n' ' ' | sed 's/^ $//')" ]
}
# end PID: stops an operator.
end() { kill "$1" && wait "$1" 2>/dev/null; }

cat >"$work/original.py" <<'PYTHON'
import kopf

@kopf.on.create('kopfexamples')
def handle(**_):
    pass
PYTHON

# --- Setup. Objects of new kinds can be rejected for a moment.
kubectl create namespace "$ns" >/dev/null || exit 1
kinds() { sed '/^apiVersion: kopf.dev/,$d' "$root/crates/kopf-shipping/manifests/peering.yaml" | kubectl apply -f - >/dev/null 2>&1; }
peering() {
    kubectl create --namespace "$ns" -f - >/dev/null 2>&1 <<OBJECT
{apiVersion: kopf.dev/v1, kind: KopfPeering, metadata: {name: default}}
OBJECT
}
served() { kubectl get kopfexamples.kopf.dev --namespace "$ns" >/dev/null 2>&1; }
kubectl apply -f "$root/examples/crd.yaml" >/dev/null || exit 1
within 20 kinds && within 20 peering && within 20 served || { echo "the kinds are not served" >&2; exit 1; }

ours() {
    POD_ID="ours" "$operator" run --namespace "$ns" --priority 10 --verbose >>"$work/ours.log" 2>&1 &
    pids+=($!)
    our_pid=$!
}
# theirs PRIORITY
theirs() {
    POD_ID="theirs" "$original" run --namespace "$ns" --priority "$1" --verbose "$work/original.py" \
        >>"$work/theirs.log" 2>&1 &
    pids+=($!)
    their_pid=$!
}
touch "$work/ours.log" "$work/theirs.log"

# --- The checks.
ours
within 20 records ours
verdict "our record exists" $?
handles ours a theirs
verdict "ours works alone" $?

theirs 20
within 20 said ours "Pausing operations in favour of [<Peer theirs: priority=20, lifetime=60, lastseen='"
verdict "ours pauses for theirs of a higher priority" $?
within 10 records ours theirs
verdict "both records exist" $?
handles theirs b ours
verdict "theirs works instead" $?
end "$their_pid"
within 20 said ours "Resuming operations after the pause."
verdict "ours continues after theirs has exited" $?
handles ours c theirs
verdict "ours works again" $?

theirs 5
within 20 said theirs "Pausing operations in favour of [<Peer ours: priority=10, lifetime=60, lastseen='"
verdict "theirs pauses for ours of a higher priority" $?
handles ours d theirs
verdict "ours continues" $?

"$original" freeze --namespace "$ns" --peering default --lifetime 600 --id me >>"$work/commands.log" 2>&1
within 20 said ours "Pausing operations in favour of [<Peer me: priority=100, lifetime=600, "
verdict "ours is frozen by their command" $?
"$kopf" resume --namespace "$ns" --peering default --id me >>"$work/commands.log" 2>&1
within 20 said ours "Resuming operations after the pause." 2
verdict "ours is resumed by our command" $?

end "$our_pid"
within 20 said theirs "Resuming operations after the pause."
verdict "theirs continues after ours has exited" $?
handles theirs e ours
verdict "theirs works instead" $?
"$kopf" freeze --namespace "$ns" --peering default --lifetime 600 --id me >>"$work/commands.log" 2>&1
within 20 said theirs "Pausing operations in favour of [<Peer me: priority=100, lifetime=600, "
verdict "theirs is frozen by our command" $?
"$original" resume --namespace "$ns" --peering default --id me >>"$work/commands.log" 2>&1
within 20 said theirs "Resuming operations after the pause." 2
verdict "theirs is resumed by their command" $?

ours
within 20 said theirs "Pausing operations in favour of [<Peer ours: priority=10" 2
verdict "theirs pauses again when ours is back" $?
end "$their_pid"
kubectl patch --namespace "$ns" kopfpeerings.kopf.dev default --type merge --patch \
    '{"status": {"crashed": {"priority": 999, "lifetime": 60, "lastseen": "2020-01-01T00:00:00"}}}' >/dev/null
within 10 records ours
verdict "the records of exited and killed operators are removed" $?
end "$our_pid"
within 10 records ""
verdict "no records are left" $?

summary
