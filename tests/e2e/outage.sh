#!/usr/bin/env bash
# Liveness of operators while the API server of a real control plane is frozen, and while it is gone: no probe fails,
# and objects are handled within seconds of its return. Starts a control plane of its own.
# Usage: outage.sh SECONDS OPERATOR PYTHON
#   SECONDS: the length of each outage. OPERATOR: the example 06-peering in Rust; PYTHON runs the one in Python.
# Each check prints "ok" or "FAILED"; the last line counts them.
set -uo pipefail

[ $# -eq 3 ] || { echo "usage: outage.sh SECONDS OPERATOR PYTHON" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
length="$1"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-outage.XXXXXX")"
plane="$work/control-plane"
export KUBECACHEDIR="$work/cache"
cat >"$work/operator-python" <<END
#!/bin/sh
PYTHONPATH="$root/python" exec "$3" -m kopf "\$@" "$root/examples/python/06-peering/handlers.py"
END
chmod +x "$work/operator-python"
operators=("$2" "$work/operator-python")

pids=()
finish() {
    trap - EXIT
    kill -CONT "$(cat "$plane/kube-apiserver.pid" 2>/dev/null)" 2>/dev/null
    rm -f "$plane/outage"
    for pid in ${pids[@]+"${pids[@]}"}; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    rm -rf "$work"
}
trap 'finish; exit 130' INT TERM
trap finish EXIT

source "$here/checks.sh"
explain() {
    for log in "$work"/*.log "$work"/*.failures; do
        echo "        $log:"
        end_of_log "$log"
    done
}

"$root/tests/control-plane/run.sh" --restart --dir "$plane" >"$work/out" 2>"$work/err" &
pids+=($!)
ready() { grep -qx ready "$work/out"; }
within 180 ready || { cat "$work/err" >&2; exit 1; }
export KUBECONFIG="$plane/kubeconfig"
bin="$(sed -n 's/^bin=//p' "$work/out")"
kubectl() { "$bin/kubectl" --request-timeout=10s "$@"; }
kubectl apply -f "$root/examples/crd.yaml" >/dev/null || exit 1
served() { kubectl get kopfexamples.kopf.dev --all-namespaces >/dev/null 2>&1; }
within 20 served || { echo "the kinds are not served" >&2; exit 1; }

# probe NUMBER PORT: asks for the liveness every second, and notes each failure.
probe() {
    local answer
    while true; do
        answer="$(curl --silent --show-error --fail --max-time 5 --noproxy '*' "http://127.0.0.1:$2/healthz" 2>&1)" ||
            echo "$(date +%T) $answer" >>"$work/$1.failures"
        echo >>"$work/$1.probes"
        sleep 1
    done
}
alive() { curl --silent --fail --max-time 5 --noproxy '*' --output /dev/null "http://127.0.0.1:$1/healthz"; }
for number in "${!operators[@]}"; do
    port=$((19000 + RANDOM % 1000))
    kubectl create namespace "outage-$number" >/dev/null || exit 1
    "${operators[number]}" run --namespace "outage-$number" --standalone --verbose \
        --liveness "http://127.0.0.1:$port/healthz" >"$work/$number.log" 2>&1 &
    pids+=($!)
    within 30 alive "$port"
    verdict "operator $number is alive" $?
    : >"$work/$number.failures"
    probe "$number" "$port" &
    pids+=($!)
done

# create NAME: creates an object for each operator.
create() {
    local number
    for number in "${!operators[@]}"; do
        kubectl apply -f - >/dev/null 2>&1 <<OBJECT || return 1
{apiVersion: kopf.dev/v1, kind: KopfExample, metadata: {name: $1, namespace: outage-$number}, spec: {}}
OBJECT
    done
}
# processed NAME: succeeds if each operator has handled its object.
processed() {
    local number
    for number in "${!operators[@]}"; do
        grep -qF -- "[outage-$number/$1] Creation is processed: 1 succeeded; 0 failed." "$work/$number.log" || return 1
    done
}
flawless() { ! grep -q . "$work"/*.failures; }

create a
within 20 processed a
verdict "an object is handled before the outages" $?

apiserver="$(cat "$plane/kube-apiserver.pid")"
kill -STOP "$apiserver"
sleep "$length"
flawless
verdict "no liveness probe fails while the API server is frozen for $length s" $?
kill -CONT "$apiserver"
within 20 create b
verdict "the API server accepts objects again" $?
within 20 processed b
verdict "an object is handled within 20 s after that" $?

touch "$plane/outage"
kill -9 "$apiserver"
sleep "$length"
flawless
verdict "no liveness probe fails while the API server is gone for $length s" $?
rm "$plane/outage"
within 60 create c
verdict "the API server is back" $?
within 20 processed c
verdict "an object is handled within 20 s after that" $?
flawless
verdict "no liveness probe has failed at all" $?
for number in "${!operators[@]}"; do
    [ "$(wc -l <"$work/$number.probes")" -gt "$length" ]
    verdict "operator $number was probed all the time" $?
done
summary
