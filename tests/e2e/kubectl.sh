#!/usr/bin/env bash
# Tests common kubectl commands, with the same expectations on every server.
# Usage: kubectl.sh KUBECONFIG KUBECTL
# Each check prints "ok" or "FAILED" with the expectation; the last line counts them.
set -uo pipefail

[ $# -eq 2 ] || { echo "usage: kubectl.sh KUBECONFIG KUBECTL" >&2; exit 2; }
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-kubectl.XXXXXX")"
cp "$1" "$work/kubeconfig" || exit 2
export KUBECONFIG="$work/kubeconfig"
kubectl_binary="$2"
# kubectl caches discovery in the home folder by address and port: that of another server must not be used.
export HOME="$work" KUBECACHEDIR="$work/cache" KUBE_EDITOR=true
export NO_COLOR=1

# Unique names, so that the checks can share a server with others.
id="$(printf %05x $((RANDOM * 32 + RANDOM % 32)))"
ns="e2e-$id"
group="e2e-$id.kopf.dev"
stones="stones$id"
Stone="Stone$id"
short="st$id"
node="node-$id"

kubectl() { "$kubectl_binary" --request-timeout=30s "$@"; }
# Runs kubectl in the namespace of these checks.
k() { kubectl --namespace "$ns" "$@"; }

background=()
finish() {
    trap - EXIT
    for pid in ${background[@]+"${background[@]}"}; do
        kill "$pid" 2>/dev/null
    done
    # Finalizers would block the deletion of the objects and of the namespace.
    for name in $(k get configmaps --output name 2>/dev/null); do
        k patch "$name" --type merge --patch '{"metadata":{"finalizers":null}}' >/dev/null 2>&1
    done
    kubectl delete --ignore-not-found --wait=false namespace "$ns" "$ns-b" >/dev/null 2>&1
    kubectl delete --ignore-not-found --wait=false node "$node" >/dev/null 2>&1
    kubectl delete --ignore-not-found --wait=false crd "$stones.$group" >/dev/null 2>&1
    rm -rf "$work"
}
trap 'finish; exit 130' INT TERM
trap finish EXIT

passed=0
failed=0

# verdict NAME WRONG OUTPUT: the check passes if WRONG is empty.
verdict() {
    if [ -z "$2" ]; then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failed=$((failed + 1))
        echo "FAILED  $1"
        printf '%s\n' "$2" | sed 's/^/        /'
        printf '%s\n' "$3" | head -n 40 | sed 's/^/        | /'
    fi
}

# run WANTED_CODE COMMAND…: sets $output (stdout and stderr), and $wrong if the exit code differs.
run() {
    local wanted="$1" code
    shift
    output="$("$@" 2>&1 </dev/null)"
    code=$?
    wrong=""
    [ "$code" = "$wanted" ] || wrong="expected exit code $wanted and not $code of: $*"
}

# matches NAME PATTERN COMMAND…: it succeeds, and a line of the output matches the whole pattern.
# Further patterns precede the command, each after "+"; "!" precedes patterns that must not match.
matches() { judge 0 "$@"; }
# refused NAME PATTERN COMMAND…: it fails with exit code 1, and a line of the output matches the pattern.
refused() { judge 1 "$@"; }

judge() {
    local code="$1" name="$2" patterns=("+$3") pattern
    shift 3
    while [ "$1" = "+" ] || [ "$1" = "!" ]; do
        patterns+=("$1$2")
        shift 2
    done
    run "$code" "$@"
    for pattern in "${patterns[@]}"; do
        if [ "${pattern:0:1}" = "+" ]; then
            grep -qxE -- "${pattern:1}" <<<"$output" || wrong+="${wrong:+$'\n'}expected a line: ${pattern:1}"
        else
            grep -qxE -- "${pattern:1}" <<<"$output" && wrong+="${wrong:+$'\n'}expected no line: ${pattern:1}"
        fi
    done
    verdict "$name" "$wrong" "$output"
}

# equals NAME TEXT COMMAND…: it succeeds, and the output equals the text.
equals() {
    local name="$1" text="$2"
    shift 2
    run 0 "$@"
    [ "$output" = "$text" ] ||
        wrong+="${wrong:+$'\n'}expected (<) and found (>):"$'\n'"$(diff <(echo "$text") <(echo "$output"))"
    verdict "$name" "$wrong" "$output"
}

# until_equals NAME TEXT COMMAND…: like equals, but waits for background operations.
until_equals() {
    local name="$1" text="$2"
    shift 2
    for _ in {1..150}; do
        run 0 "$@"
        [ "$output" = "$text" ] && break
        sleep 0.1
    done
    equals "$name" "$text" "$@"
}

# await_text FILE TEXT: waits until the file contains the text; the next check reports a timeout.
await_text() {
    for _ in {1..100}; do
        grep -q -- "$2" "$1" 2>/dev/null && return
        sleep 0.1
    done
}

# --- The server.
matches "version: the server tells it" 'Server Version: v1\.[0-9]+\..*' kubectl version
matches "cluster-info: the address" 'Kubernetes control plane.* is running at .*https://127\.0\.0\.1:.*' kubectl cluster-info
equals "get --raw /readyz" ok kubectl get --raw /readyz
equals "get --raw /livez" ok kubectl get --raw /livez
matches "get --raw /version" '.*"gitVersion": ?"v1\..*' kubectl get --raw /version
matches "api-versions" v1 + apps/v1 + batch/v1 + rbac\.authorization\.k8s\.io/v1 + apiextensions\.k8s\.io/v1 \
    + events\.k8s\.io/v1 + coordination\.k8s\.io/v1 + policy/v1 + networking\.k8s\.io/v1 + storage\.k8s\.io/v1 \
    + autoscaling/v2 + admissionregistration\.k8s\.io/v1 kubectl api-versions
matches "api-resources: names, short names, scope" \
    'pods +po +v1 +true +Pod' + 'deployments +deploy +apps/v1 +true +Deployment' \
    + 'nodes +no +v1 +false +Node' + 'persistentvolumeclaims +pvc +v1 +true +PersistentVolumeClaim' \
    + 'customresourcedefinitions +crd,crds +apiextensions.k8s.io/v1 +false +CustomResourceDefinition' \
    + 'cronjobs +cj +batch/v1 +true +CronJob' kubectl api-resources
matches "api-resources: cluster-wide ones" 'namespaces +ns .*' ! 'pods .*' kubectl api-resources --namespaced=false
matches "api-resources: by category" 'services +svc .*' + 'replicasets +rs .*' ! 'secrets .*' \
    kubectl api-resources --categories=all
matches "api-resources: verbs" '.*create,delete,deletecollection,get,list,patch,update,watch.*' \
    kubectl api-resources --api-group=apps -o wide
matches "auth can-i" yes kubectl auth can-i create pods
matches "auth whoami" 'Username +[^ ].*' + 'Groups +\[.*system:(masters|authenticated).*\]' kubectl auth whoami
matches "config view: keys are not shown" ' +client-certificate-data: DATA\+OMITTED' + ' +server: https://.*' \
    kubectl config view --minify
kubectl config set-credentials stranger --token=wrong >/dev/null
refused "a wrong token is refused" 'error: You must be logged in to the server \((Unauthorized|the server has asked for the client to provide credentials)\)' \
    kubectl --user=stranger --client-certificate= get namespaces

# --- Creating.
equals "create namespace" "namespace/$ns created" kubectl create namespace "$ns"
equals "get namespace: its phase" Active kubectl get namespace "$ns" -o 'jsonpath={.status.phase}'
refused "create: what exists already" "Error from server \(AlreadyExists\): namespaces \"$ns\" already exists" \
    kubectl create namespace "$ns"
equals "create configmap" "configmap/settings created" k create configmap settings --from-literal=a=1 --from-literal=b=2
equals "get -o jsonpath" "1 2" k get configmap settings -o 'jsonpath={.data.a} {.data.b}'
equals "create secret" "secret/password created" k create secret generic password --from-literal=word=sesame
equals "get -o go-template" sesame k get secret password -o 'go-template={{.data.word|base64decode}}'
matches "get secret: the table" 'NAME +TYPE +DATA +AGE' + 'password +Opaque +1 +[0-9]+s' k get secrets
equals "create deployment" "deployment.apps/web created" k create deployment web --image=nginx --replicas=2
matches "get deployments: the table" 'NAME +READY +UP-TO-DATE +AVAILABLE +AGE' + 'web +0/2 +0 +0 +[0-9]+s' \
    k get deployments
matches "get deployments -o wide" 'NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR' \
    + 'web +0/2 +0 +0 +[0-9]+s +nginx +nginx +app=web' k get deploy -o wide
equals "create job" "job.batch/once created" k create job once --image=busybox -- true
equals "create cronjob" "cronjob.batch/nightly created" k create cronjob nightly --image=busybox --schedule='0 3 * * *'
matches "get cronjobs: the table" 'NAME +SCHEDULE +TIMEZONE +SUSPEND +ACTIVE +LAST SCHEDULE +AGE' \
    + 'nightly +0 3 \* \* \* +<none> +False +0 +<none> +[0-9]+s' k get cj
equals "create service" "service/web created" k create service clusterip web --tcp=80:8080
equals "create serviceaccount" "serviceaccount/robot created" k create serviceaccount robot
equals "create role" "role.rbac.authorization.k8s.io/reader created" k create role reader --verb=get --resource=pods
equals "create rolebinding" "rolebinding.rbac.authorization.k8s.io/reads created" \
    k create rolebinding reads --role=reader --serviceaccount="$ns:robot"
equals "create quota" "resourcequota/limits created" k create quota limits --hard=pods=100
equals "create poddisruptionbudget" "poddisruptionbudget.policy/web created" \
    k create poddisruptionbudget web --selector=app=web --min-available=1
equals "create ingress" "ingress.networking.k8s.io/web created" k create ingress web --rule=example.com/=web:80
equals "autoscale" "horizontalpodautoscaler.autoscaling/web autoscaled" k autoscale deployment web --max=5 --min=1 --cpu=50%
matches "get all: by category, with prefixes" 'NAME +READY +UP-TO-DATE +AVAILABLE +AGE' \
    + 'deployment\.apps/web .*' + 'job\.batch/once .*' + 'service/web .*' + 'cronjob\.batch/nightly .*' \
    ! 'secret/.*' k get all
cat >"$work/pod.yaml" <<Y
apiVersion: v1
kind: Pod
metadata: {name: p1, labels: {tier: front, zone: m}}
spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p2, labels: {tier: back, zone: k}}
spec: {containers: [{name: early, image: nginx}]}
Y
equals "create -f: several documents" "pod/p1 created
pod/p2 created" k create -f "$work/pod.yaml"
matches "get pods: the table" 'NAME +READY +STATUS +RESTARTS +AGE' + 'p1 +0/1 +Pending +0 +[0-9]+s' k get po
matches "get pods -o wide" 'NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES' \
    + 'p1 +0/1 +Pending +0 +[0-9]+s +<none> +<none> +<none> +<none>' k get pods -o wide
matches "create with generateName" 'configmap/made-[a-z0-9]{5}' \
    bash -c "printf '%s' '{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"generateName\":\"made-\"}}' |
        '$kubectl_binary' --namespace '$ns' create -o name -f -"
equals "run: a pod" "pod/quick created" k run quick --image=busybox --restart=Never
equals "create --dry-run=server" "configmap/dry created (server dry run)" k create configmap dry --dry-run=server
refused "dry run: nothing is stored" 'Error from server \(NotFound\): configmaps "dry" not found' k get configmap dry
refused "create in a namespace which is not there" 'error: failed to create configmap: namespaces "nowhere" not found' \
    kubectl --namespace nowhere create configmap lost
refused "create with a bad name" '.*metadata\.name: Invalid value: "Bad_Name": .*' k create configmap Bad_Name

# --- Reading.
equals "get -o name" "pod/p1
pod/p2
pod/quick" k get pods -o name
equals "get -l: equality" pod/p1 k get pods -l tier=front -o name
equals "get -l: sets" "pod/p1
pod/p2" k get pods -l 'tier in (front,back),zone notin (c)' -o name
equals "get -l: absence" pod/quick k get pods -l '!tier' -o name
equals "get --field-selector: by name" pod/p2 k get pods --field-selector metadata.name=p2 -o name
equals "get --field-selector: by phase" "pod/p1
pod/p2
pod/quick" k get pods --field-selector status.phase=Pending -o name
refused "get --field-selector: an unknown field" '.*field label not supported: spec\.nothing' \
    k get pods --field-selector spec.nothing=1
equals "get --sort-by" "p2
p1" bash -c "'$kubectl_binary' --namespace '$ns' get pods -l tier --sort-by '.spec.containers[0].name' --no-headers | cut -d' ' -f1"
matches "get -A: the namespace is a column" 'NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE' + "$ns +p1 .*" kubectl get pods -A
matches "get --show-labels" 'p1 .* tier=front,zone=m' k get pods --show-labels
matches "get -L: labels as columns" 'NAME .* AGE +TIER' + 'p1 .* front' k get pods -L tier
matches "get -o custom-columns" 'N +I' + 'p1 +nginx' k get pods -o custom-columns='N:.metadata.name,I:.spec.containers[*].image'
matches "get -o yaml" 'kind: Pod' + '  uid: [0-9a-f-]{36}' + '  resourceVersion: "[0-9]+"' \
    + '  creationTimestamp: "20.*Z"' + "  namespace: $ns" k get pod p1 -o yaml
matches "get -o json: a list" '    "kind": "List",' k get pods,configmaps -o json
equals "get --chunk-size: page by page" "pod/p1
pod/p2
pod/quick" k get pods --chunk-size=1 -o name
refused "get: an absent object" 'Error from server \(NotFound\): pods "absent" not found' k get pod absent
equals "get --ignore-not-found" "" k get pod absent --ignore-not-found
refused "get: an unknown kind" "error: the server doesn't have a resource type \"nothings\"" k get nothings
matches "describe configmap" 'Name: +settings' + "Namespace: +$ns" + 'a:' + '1' k describe configmap settings
matches "describe deployment" 'Selector: +app=web' + 'Replicas: +2 desired \| 0 updated .*' + ' +Image: +nginx' \
    k describe deployment web
uid="$(k get pod p1 -o 'jsonpath={.metadata.uid}')"
cat >"$work/event.yaml" <<Y
apiVersion: v1
kind: Event
metadata: {name: p1.happened}
involvedObject: {apiVersion: v1, kind: Pod, name: p1, namespace: $ns, uid: $uid}
type: Warning
reason: Happened
message: something has happened
source: {component: e2e}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
count: 3
Y
equals "create an event" "event/p1.happened created" k create -f "$work/event.yaml"
matches "describe pod: with its events" 'Events:' + ' +Warning +Happened +.* e2e +something has happened' k describe pod p1
matches "get events: the table" 'LAST SEEN +TYPE +REASON +OBJECT +MESSAGE' \
    + '[0-9a-z]+ +Warning +Happened +pod/p1 +something has happened' k get events
equals "get events: by the object" event/p1.happened \
    k get events --field-selector involvedObject.kind=Pod,involvedObject.name=p1,type=Warning -o name
matches "events --for" '[0-9a-z]+.* Warning +Happened +Pod/p1 +something has happened' k events --for pod/p1

# --- Changing.
cat >"$work/apply.yaml" <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: applied, labels: {first: "1", second: "2"}}
data: {keep: a, drop: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: applied}
spec:
  replicas: 1
  selector: {matchLabels: {app: applied}}
  template:
    metadata: {labels: {app: applied}}
    spec:
      containers:
      - {name: one, image: nginx, env: [{name: A, value: "1"}]}
      - {name: two, image: redis}
Y
equals "apply: creates" "configmap/applied created
deployment.apps/applied created" k apply -f "$work/apply.yaml"
equals "apply: nothing changes" "configmap/applied unchanged
deployment.apps/applied unchanged" k apply -f "$work/apply.yaml"
k label configmap applied other=theirs >/dev/null
sed -i 's/, drop: b//; s/, second: "2"//; s/image: redis/image: valkey/' "$work/apply.yaml"
refused "diff: shows what would change" '-  drop: b' + '-.* image: redis' + '\+.* image: valkey' \
    k diff -f "$work/apply.yaml"
equals "apply: changes" "configmap/applied configured
deployment.apps/applied configured" k apply -f "$work/apply.yaml"
equals "apply: removes fields, keeps those of others" '{"keep":"a"} {"first":"1","other":"theirs"}' \
    k get configmap applied -o 'jsonpath={.data} {.metadata.labels}'
equals "apply: merges lists by their keys" "one=nginx two=valkey " \
    k get deployment applied -o 'jsonpath={range .spec.template.spec.containers[*]}{.name}={.image} {end}'
equals "diff: nothing to change" "" k diff -f "$work/apply.yaml"
equals "apply --dry-run=server" "configmap/applied configured (server dry run)
deployment.apps/applied unchanged (server dry run)" bash -c "sed 's/keep: a/keep: c/' '$work/apply.yaml' |
    '$kubectl_binary' --namespace '$ns' apply --dry-run=server -f -"
matches "apply view-last-applied" '  keep: a' k apply view-last-applied configmap applied
sed 's/replicas: 1/replicas: 1\n  nope: 1/' "$work/apply.yaml" >"$work/strict.yaml"
refused "apply --validate=strict: an unknown field" '.*strict decoding error: unknown field "spec\.nope"' \
    k apply --validate=strict -f "$work/strict.yaml"
matches "apply --validate=warn: an unknown field" 'Warning: unknown field "spec\.nope"' k apply --validate=warn -f "$work/strict.yaml"
refused "apply: a wrong type" '.*(The request is invalid|cannot be handled as a Deployment|is invalid: spec\.replicas).*' \
    bash -c "sed 's/replicas: 1/replicas: many/' '$work/apply.yaml' | '$kubectl_binary' --namespace '$ns' apply --validate=ignore -f -"
equals "label" "pod/p1 labeled" k label pod p1 colour=red
refused "label: no overwriting by chance" "error: 'colour' already has a value \(red\), and --overwrite is false" \
    k label pod p1 colour=blue
equals "label --overwrite" "pod/p1 labeled" k label pod p1 colour=blue --overwrite
equals "label: removal" "pod/p1 unlabeled" k label pod p1 colour-
equals "annotate" "pod/p1 annotated" k annotate pod p1 note='some words'
equals "annotate: what is seen" "some words" k get pod p1 -o 'jsonpath={.metadata.annotations.note}'
equals "patch --type merge" "configmap/settings patched" \
    k patch configmap settings --type merge -p '{"data":{"a":"10","b":null}}'
equals "patch --type json" "configmap/settings patched" \
    k patch configmap settings --type json -p '[{"op":"test","path":"/data/a","value":"10"},{"op":"add","path":"/data/c","value":"3"}]'
equals "patch: what is seen" '{"a":"10","c":"3"}' k get configmap settings -o 'jsonpath={.data}'
refused "patch --type json: a failed test" '.*(the server rejected our request due to an error in our request|testing value /data/a failed: test failed).*' \
    k patch configmap settings --type json -p '[{"op":"test","path":"/data/a","value":"99"}]'
equals "patch --type strategic" "deployment.apps/applied patched" \
    k patch deployment applied -p '{"spec":{"template":{"spec":{"containers":[{"name":"two","$patch":"delete"},{"name":"one","image":"caddy"}]}}}}'
equals "patch --type strategic: what is seen" "one=caddy " \
    k get deployment applied -o 'jsonpath={range .spec.template.spec.containers[*]}{.name}={.image} {end}'
equals "patch: nothing changes" "configmap/settings patched (no change)" \
    k patch configmap settings --type merge -p '{"data":{"a":"10"}}'
equals "set image" "deployment.apps/applied image updated" k set image deployment/applied one=nginx:2
equals "set env" "deployment.apps/applied env updated" k set env deployment/applied B=2
equals "scale" "deployment.apps/web scaled" k scale deployment web --replicas=4
equals "scale: what is seen" "4 2" k get deployment web -o 'jsonpath={.spec.replicas} {.metadata.generation}'
refused "scale: a wrong precondition" 'error: Expected replicas to be 7, was 4' \
    k scale deployment web --replicas=1 --current-replicas=7
equals "get --raw: the scale subresource" 4 bash -c "'$kubectl_binary' get --raw \
    /apis/apps/v1/namespaces/$ns/deployments/web/scale | tr -d ' \n' | sed -E 's/.*\"spec\":\{\"replicas\":([0-9]+)\}.*/\1/'"
printf '#!/bin/sh\nsed -i "s/keep: a/keep: edited/" "$1"\n' >"$work/editor"
chmod +x "$work/editor"
KUBE_EDITOR="$work/editor" equals "edit" "configmap/applied edited" k edit configmap applied
equals "edit: what is seen" edited k get configmap applied -o 'jsonpath={.data.keep}'
equals "edit: no change" "Edit cancelled, no changes made." k edit configmap applied
k get configmap settings -o yaml >"$work/stale.yaml"
equals "replace" "configmap/settings replaced" \
    bash -c "sed 's/a: \"10\"/a: \"11\"/' '$work/stale.yaml' | '$kubectl_binary' --namespace '$ns' replace -f -"
refused "replace: a stale version" 'Error from server \(Conflict\): .*Operation cannot be fulfilled on configmaps "settings": the object has been modified; please apply your changes to the latest version and try again' \
    k replace -f "$work/stale.yaml"
equals "patch --subresource=status" "pod/p1 patched" \
    k patch pod p1 --subresource=status --type merge -p '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
equals "wait --for=condition" "pod/p1 condition met" k wait --for=condition=Ready pod/p1 --timeout=10s
equals "wait --for=jsonpath" "pod/p1 condition met" k wait --for=jsonpath='{.status.phase}'=Running pod/p1 --timeout=10s
refused "wait: not in time" 'error: timed out waiting for the condition on pods/p2' k wait --for=condition=Ready pod/p2 --timeout=1s

# --- Watching.
k get configmaps --watch --field-selector metadata.name=watched --output-watch-events \
    --request-timeout=0 >"$work/events" 2>&1 &
background+=($!)
k get configmaps --watch --field-selector metadata.name=watched --request-timeout=0 >"$work/rows" 2>&1 &
background+=($!)
sleep 1
k create configmap watched --from-literal=a=1 >/dev/null
await_text "$work/events" ADDED
await_text "$work/rows" watched
k patch configmap watched --type merge -p '{"data":{"b":"2"}}' >/dev/null
await_text "$work/events" MODIFIED
k delete configmap watched >/dev/null
await_text "$work/events" DELETED
matches "get --watch --output-watch-events" 'EVENT +NAME +DATA +AGE' + 'ADDED +watched +1 +[0-9]+s' \
    + 'MODIFIED +watched +2 +[0-9]+s' + 'DELETED +watched +2 +[0-9]+s' cat "$work/events"
matches "get --watch" 'NAME +DATA +AGE' + 'watched +1 +[0-9]+s' + 'watched +2 +[0-9]+s' cat "$work/rows"

# --- Custom resources.
cat >"$work/crd.yaml" <<Y
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $stones.$group}
spec:
  group: $group
  scope: Namespaced
  names: {plural: $stones, singular: stone$id, kind: $Stone, shortNames: [$short], categories: [all, rocks$id]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}
    additionalPrinterColumns:
    - {name: Weight, type: integer, jsonPath: .spec.weight}
    - {name: Colour, type: string, jsonPath: .spec.colour, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              weight: {type: integer, minimum: 1}
              colour: {type: string, enum: [grey, brown], default: grey}
              count: {type: integer}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
  - {name: v1beta1, served: true, storage: false, schema: *schema}
Y
equals "create a custom resource definition" "customresourcedefinition.apiextensions.k8s.io/$stones.$group created" \
    kubectl create -f "$work/crd.yaml"
equals "wait: until it is established" "customresourcedefinition.apiextensions.k8s.io/$stones.$group condition met" \
    kubectl wait --for=condition=Established "crd/$stones.$group" --timeout=20s
# The real server publishes the kind with a delay.
for _ in {1..50}; do
    kubectl get --raw "/openapi/v3/apis/$group/v1" >/dev/null 2>&1 && break
    sleep 0.2
done
matches "api-resources: the new kind" "$stones +$short +$group/v1 +true +$Stone" kubectl api-resources --api-group="$group"
cat >"$work/stone.yaml" <<Y
apiVersion: $group/v1
kind: $Stone
metadata: {name: pebble}
spec: {weight: 5, count: 1}
Y
equals "apply a custom resource" "stone$id.$group/pebble created" k apply -f "$work/stone.yaml"
equals "apply a custom resource: nothing changes" "stone$id.$group/pebble unchanged" k apply -f "$work/stone.yaml"
sed -i 's/weight: 5, count: 1/weight: 6/' "$work/stone.yaml"
equals "apply a custom resource: changes" "stone$id.$group/pebble configured" k apply -f "$work/stone.yaml"
equals "custom resource: fields are removed, defaults are filled in" '{"colour":"grey","weight":6}' \
    k get "$stones" pebble -o 'jsonpath={.spec}'
matches "custom resource: columns, by short name" 'NAME +WEIGHT +AGE' + 'pebble +6 +[0-9]+s' k get "$short"
matches "custom resource: wide columns" 'NAME +WEIGHT +COLOUR +AGE' + 'pebble +6 +grey +[0-9]+s' k get "$short" -o wide
matches "custom resource: by category" "stone$id.$group/pebble" k get "rocks$id" -o name
matches "custom resource: another version" "apiVersion: $group/v1beta1" k get "$stones.v1beta1.$group" pebble -o yaml
matches "describe a custom resource" 'Name: +pebble' + ' +Weight: +6' + 'Events: +<none>' k describe "$short" pebble
refused "custom resource: validation" "The $Stone \"bad\" is invalid: spec\.weight: Invalid value: 0: spec\.weight in body should be greater than or equal to 1" \
    bash -c "sed 's/pebble/bad/; s/weight: 6/weight: 0/' '$work/stone.yaml' | '$kubectl_binary' --namespace '$ns' create --validate=ignore -f -"
refused "custom resource: strict validation" '.*strict decoding error: unknown field "spec\.nope"' \
    bash -c "sed 's/pebble/bad/; s/weight: 6/weight: 6, nope: 1/' '$work/stone.yaml' | '$kubectl_binary' --namespace '$ns' create -f -"
equals "custom resource: status by patch" "stone$id.$group/pebble patched" \
    k patch "$short" pebble --subresource=status --type merge -p '{"spec":{"weight":99},"status":{"count":1,"state":"lying"}}'
equals "custom resource: status and spec do not mix" '6 lying 2' \
    k get "$short" pebble -o 'jsonpath={.spec.weight} {.status.state} {.metadata.generation}'
equals "custom resource: scale" "stone$id.$group/pebble scaled" k scale "$short" pebble --replicas=3
equals "custom resource: scale, what is seen" 3 k get "$short" pebble -o 'jsonpath={.spec.count}'
equals "custom resource: wait by jsonpath" "stone$id.$group/pebble condition met" \
    k wait "$short/pebble" --for=jsonpath='{.status.state}'=lying --timeout=10s

# --- Nodes.
equals "create a node" "node/$node created" \
    bash -c "printf 'apiVersion: v1\nkind: Node\nmetadata: {name: $node}\n' | '$kubectl_binary' create -f -"
equals "cordon" "node/$node cordoned" kubectl cordon "$node"
matches "get nodes: the table" 'NAME +STATUS +ROLES +AGE +VERSION' + "$node +Unknown,SchedulingDisabled +<none> +[0-9]+s *" \
    kubectl get nodes "$node"
equals "uncordon" "node/$node uncordoned" kubectl uncordon "$node"
equals "taint" "node/$node tainted" kubectl taint nodes "$node" key=value:NoSchedule
equals "taint: what is seen" "key=value:NoSchedule" \
    kubectl get node "$node" -o 'jsonpath={range .spec.taints[?(@.key=="key")]}{.key}={.value}:{.effect}{end}'
equals "taint: removal" "node/$node untainted" kubectl taint nodes "$node" key:NoSchedule-
equals "delete a node" "node \"$node\" deleted" kubectl delete node "$node"

# --- Deleting.
equals "delete --dry-run=server" "configmap \"settings\" deleted from $ns namespace (server dry run)" \
    k delete configmap settings --dry-run=server
equals "delete" "configmap \"settings\" deleted from $ns namespace" k delete configmap settings
refused "delete: what is not there" 'Error from server \(NotFound\): configmaps "settings" not found' k delete configmap settings
equals "delete -l: by label" 'pod "p2" deleted from '"$ns"' namespace' k delete pods -l tier=back --grace-period=0
equals "delete -f" "pod \"p1\" deleted from $ns namespace" \
    bash -c "sed '/^---/,\$d' '$work/pod.yaml' | '$kubectl_binary' --namespace '$ns' delete -f -"

printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, finalizers: [kopf.dev/e2e]}\n' | k create -f - >/dev/null
k delete configmap kept --request-timeout=0 >"$work/deletion" 2>&1 &
deletion=$!
background+=("$deletion")
until_equals "delete: waits for finalizers" terminating \
    k get configmap kept -o 'go-template={{if .metadata.deletionTimestamp}}terminating{{end}}'
equals "delete: it has not ended before" running bash -c "kill -0 $deletion && echo running"
k wait --for=delete configmap/kept --timeout=20s >"$work/waited" 2>&1 &
waiting=$!
background+=("$waiting")
k patch configmap kept --type merge -p '{"metadata":{"finalizers":null}}' >/dev/null
wait "$deletion"
equals "delete: ends when the finalizer is removed" "configmap \"kept\" deleted from $ns namespace" cat "$work/deletion"
wait "$waiting"
equals "wait --for=delete" 0 echo $?
refused "delete: it is gone" 'Error from server \(NotFound\): configmaps "kept" not found' k get configmap kept

# family NAME: creates an owner and a dependent.
family() {
    k create configmap "$1-owner" >/dev/null
    local uid
    uid="$(k get configmap "$1-owner" -o 'jsonpath={.metadata.uid}')"
    k create -f - >/dev/null <<Y
apiVersion: v1
kind: ConfigMap
metadata:
  name: $1-child
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: $1-owner, uid: $uid, blockOwnerDeletion: true}]
Y
}
family orphan
equals "delete --cascade=orphan" "configmap \"orphan-owner\" deleted from $ns namespace" k delete configmap orphan-owner --cascade=orphan
until_equals "delete --cascade=orphan: the dependant stays, without an owner" "[]" \
    k get configmap orphan-child -o 'go-template=[{{range .metadata.ownerReferences}}{{.name}}{{end}}]'
family front
equals "delete --cascade=foreground" "configmap \"front-owner\" deleted from $ns namespace" k delete configmap front-owner --cascade=foreground
refused "delete --cascade=foreground: the dependant went first" 'Error from server \(NotFound\): .*' k get configmap front-child
family back
equals "delete --cascade=background" "configmap \"back-owner\" deleted from $ns namespace" k delete configmap back-owner --cascade=background
until_equals "delete --cascade=background: the dependant follows" "" k get configmap back-child --ignore-not-found -o name

k create configmap one >/dev/null
matches "delete --all" "deployment.apps \"web\" deleted from $ns namespace" k delete deployments --all
equals "delete --all: nothing is left" "No resources found in $ns namespace." k get deployments
kubectl create namespace "$ns-b" >/dev/null
kubectl --namespace "$ns-b" create configmap inside >/dev/null
equals "delete namespace" "namespace \"$ns-b\" deleted" kubectl delete namespace "$ns-b"
refused "delete namespace: its objects are gone too" 'Error from server \(NotFound\): .*' kubectl --namespace "$ns-b" get configmap inside
equals "delete a definition" "customresourcedefinition.apiextensions.k8s.io \"$stones.$group\" deleted" \
    kubectl delete crd "$stones.$group"
refused "delete a definition: its objects are gone too" '.*(the server could not find the requested resource|page not found).*' \
    kubectl get --raw "/apis/$group/v1/namespaces/$ns/$stones"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
