"""
Sample objects of the built-in kinds: created on a real server, read, and deleted.

They record the defaults that the server adds to a minimal object of each kind, and its row in
``kubectl get``.
"""
import dataclasses
import datetime
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from server import Refused, Server, fail

NAMESPACE = "samples"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE_PATCH = "application/merge-patch+json"

# All times are shifted so that the time of printing becomes this one. Differences between times
# (and therefore ages) are preserved.
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")

Object = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Sample:
    """An object to create, with the status that a controller or a kubelet would write."""
    api_version: str
    resource: str
    body: Object
    namespaced: bool = True
    status: Object | None = None
    # Delete the object before reading it; a finalizer in the body keeps it.
    deleted: bool = False

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def collection(self) -> str:
        root = "apis" if "/" in self.api_version else "api"
        namespace = f"/namespaces/{NAMESPACE}" if self.namespaced else ""
        return f"/{root}/{self.api_version}{namespace}/{self.resource}"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


@dataclasses.dataclass
class Recorded:
    tables: list[Object]
    defaults: list[Object]


# --- The samples.

@dataclasses.dataclass(frozen=True)
class Ago:
    """A time relative to the recording, resolved when the object is sent."""
    delta: datetime.timedelta
    suffix: str

    def at(self, moment: datetime.datetime) -> str:
        return (moment - self.delta).strftime("%Y-%m-%dT%H:%M:%S") + self.suffix


def ago(**delta: float) -> Ago:
    return Ago(datetime.timedelta(**delta), "Z")


def micro_ago(**delta: float) -> Ago:
    """Returns a time for fields with microseconds."""
    return Ago(datetime.timedelta(**delta), ".000000Z")


def resolved(value: Any, moment: datetime.datetime) -> Any:
    if isinstance(value, list):
        return [resolved(item, moment) for item in value]
    if isinstance(value, dict):
        return {k: resolved(v, moment) for k, v in value.items()}
    return value.at(moment) if isinstance(value, Ago) else value


def named(name: str, **more: Any) -> Object:
    return {"name": name, **more}


APP = {"app": "sample"}
CONTAINER = {"name": "main", "image": "example.com/app"}
TEMPLATE = {"metadata": {"labels": APP}, "spec": {"containers": [CONTAINER]}}
JOB_TEMPLATE = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}


def all_samples() -> Iterator[Sample]:
    yield from core()
    yield from pods()
    yield from events()
    yield from apps()
    yield from batch()
    yield from networking()
    yield from storage()
    yield from access()
    yield from extensions()
    yield from others()


def core() -> Iterator[Sample]:
    def sample(resource: str, kind: str, name: str, **more: Any) -> Sample:
        options = {k: more.pop(k) for k in ("namespaced", "status") if k in more}
        meta = named(name, **more.pop("metadata", {}))
        return Sample("v1", resource, {
            "apiVersion": "v1", "kind": kind, "metadata": meta, **more}, **options)

    yield sample("namespaces", "Namespace", "sample-namespace", namespaced=False)
    yield sample("configmaps", "ConfigMap", "empty")
    yield sample("configmaps", "ConfigMap", "filled", data={"a": "1", "b": "2"},
                 binaryData={"c": "AAEC"})
    yield sample("configmaps", "ConfigMap", "immutable", data={"a": "1"}, immutable=True)
    yield sample("secrets", "Secret", "opaque", stringData={"user": "me", "password": "x"})
    yield sample("secrets", "Secret", "tls", type="kubernetes.io/tls",
                 data={"tls.crt": "", "tls.key": ""})
    yield sample("serviceaccounts", "ServiceAccount", "sample")
    yield sample("services", "Service", "minimal", spec={"ports": [{"port": 80}]})
    yield sample("services", "Service", "headless", spec={
        "clusterIP": "None", "selector": APP, "ports": [{"port": 80, "targetPort": "http"}]})
    # The server allocates addresses below .17 last.
    yield sample("services", "Service", "node-port", spec={
        "type": "NodePort", "selector": APP, "clusterIP": "10.0.0.11",
        "ports": [{"name": "http", "port": 80, "nodePort": 30080},
                  {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053}]})
    yield sample("services", "Service", "balancer", spec={
        "type": "LoadBalancer", "clusterIP": "10.0.0.12",
        "ports": [{"port": 443, "nodePort": 30443}]},
        status={"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}, {"hostname": "lb.example.com"}]}})
    yield sample("services", "Service", "external", spec={
        "type": "ExternalName", "externalName": "example.com"})
    yield sample("endpoints", "Endpoints", "none")
    yield sample("endpoints", "Endpoints", "some", subsets=[{
        "addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}],
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]}])
    yield sample("replicationcontrollers", "ReplicationController", "sample",
                 spec={"selector": APP, "template": TEMPLATE})
    yield sample("podtemplates", "PodTemplate", "sample", template=TEMPLATE)
    yield sample("resourcequotas", "ResourceQuota", "sample",
                 # Not in the range of the other samples.
                 spec={"hard": {"count/jobs.batch": "100", "requests.storage": "10Ti"}},
                 status={"hard": {"count/jobs.batch": "100", "requests.storage": "10Ti"},
                         "used": {"count/jobs.batch": "2", "requests.storage": "1Gi"}})
    yield sample("limitranges", "LimitRange", "sample", spec={
        "limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}}]})
    yield sample("nodes", "Node", "sample-bare", namespaced=False)
    yield sample("nodes", "Node", "sample-ready", namespaced=False,
                 metadata={"labels": {"node-role.kubernetes.io/control-plane": ""}},
                 spec={"unschedulable": True},
                 status={
                     "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                                     "lastTransitionTime": ago(hours=1)}],
                     "addresses": [{"type": "InternalIP", "address": "192.0.2.3"},
                                   {"type": "Hostname", "address": "sample-ready"}],
                     "nodeInfo": {
                         "kubeletVersion": "v1.36.0", "osImage": "Sample OS 1",
                         "kernelVersion": "6.1.0", "containerRuntimeVersion": "containerd://2.0.0",
                         "architecture": "amd64", "operatingSystem": "linux", "bootID": "b",
                         "machineID": "m", "systemUUID": "s", "kubeProxyVersion": ""}})


def pods() -> Iterator[Sample]:
    def pod(name: str, spec: Object | None = None, status: Object | None = None,
            deleted: bool = False, **meta: Any) -> Sample:
        return Sample("v1", "pods", {
            "apiVersion": "v1", "kind": "Pod", "metadata": named(name, **meta),
            "spec": {"containers": [CONTAINER], **(spec or {})},
        }, status=status, deleted=deleted)

    def container(name: str, state: Object, **more: Any) -> Object:
        return {"name": name, "image": "example.com/app", "imageID": "", "ready": False,
                "restartCount": 0, "state": state, **more}

    running = {"running": {"startedAt": ago(minutes=10)}}
    two = {"containers": [CONTAINER, {"name": "side", "image": "example.com/side:1.2"}]}
    yield pod("minimal")
    yield pod("full", FULL_POD_SPEC)
    yield pod("running", {**two, "nodeName": "sample-ready"}, {
        "phase": "Running", "podIP": "192.0.2.100", "podIPs": [{"ip": "192.0.2.100"}],
        "startTime": ago(minutes=10),
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [
            container("main", running, ready=True, restartCount=3, lastState={"terminated": {
                "exitCode": 1, "finishedAt": ago(minutes=4, seconds=30)}}),
            container("side", running),
        ]})
    yield pod("crashing", status={
        "phase": "Running",
        "containerStatuses": [container(
            "main", {"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=7)]})
    yield pod("completed", {"restartPolicy": "Never"}, {
        "phase": "Succeeded",
        "containerStatuses": [container("main", {"terminated": {
            "exitCode": 0, "reason": "Completed"}})]})
    yield pod("failed", {"restartPolicy": "Never"}, {
        "phase": "Failed",
        "containerStatuses": [container("main", {"terminated": {"exitCode": 3}})]})
    yield pod("evicted", status={"phase": "Failed", "reason": "Evicted"})
    yield pod("initialising", {"initContainers": [
        {"name": "one", "image": "example.com/i"}, {"name": "two", "image": "example.com/i"}]}, {
        "phase": "Pending",
        "initContainerStatuses": [
            container("one", {"terminated": {"exitCode": 0}}, ready=True),
            container("two", running)],
        "containerStatuses": [container("main", {"waiting": {"reason": "PodInitializing"}})]})
    yield pod("gated", {"schedulingGates": [{"name": "example.com/gate"}],
                        "readinessGates": [{"conditionType": "example.com/ready"}]})
    # Without a node, pods are deleted immediately: a finalizer keeps this one.
    yield pod("terminating", finalizers=["example.com/keep"], deleted=True)


# Parts of a pod with defaults of their own.
FULL_POD_SPEC: Object = {
    # Tokens require a service account.
    "serviceAccountName": "sample",
    "securityContext": {},
    "initContainers": [{
        "name": "sidecar", "image": "example.com/sidecar:latest", "restartPolicy": "Always"}],
    "containers": [{
        "name": "main",
        "image": "example.com/app:1.0",
        "ports": [{"containerPort": 80}],
        "env": [
            {"name": "PLAIN"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
        "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
        "livenessProbe": {"httpGet": {"port": 80}},
        "readinessProbe": {"tcpSocket": {"port": 80}},
        "startupProbe": {"grpc": {"port": 80}},
        "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        "securityContext": {"privileged": False},
        "volumeMounts": [{"name": "empty", "mountPath": "/empty"}],
    }],
    "volumes": [
        {"name": "unset"},
        {"name": "empty", "emptyDir": {}},
        {"name": "configmap", "configMap": {"name": "filled"}},
        {"name": "secret", "secret": {"secretName": "opaque"}},
        {"name": "host", "hostPath": {"path": "/tmp"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "sample"}},
        {"name": "down", "downwardAPI": {"items": [
            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "projected", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "filled"}}]}},
        {"name": "ephemeral", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
    ],
    "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": APP}}],
}


def events() -> Iterator[Sample]:
    # Ages of many lengths: kubectl shows all times as ages.
    ages = [
        (0, 1), (0, 59), (1, 30), (1, 59), (2, 0), (9, 59), (10, 0), (12, 34), (119, 0),
        (180, 0), (200, 5), (479, 0), (481, 0), (47 * 60, 0), (49 * 60, 0), (190 * 60, 0),
        (24 * 60 * 9, 0), (24 * 60 * 400, 0), (24 * 60 * 750, 0), (24 * 60 * 365 * 9, 0),
    ]
    for number, (minutes, seconds) in enumerate(ages):
        yield Sample("v1", "events", {
            "apiVersion": "v1", "kind": "Event", "metadata": named(f"aged-{number:02}"),
            "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": "filled",
                               "namespace": NAMESPACE},
            "type": "Normal" if number % 2 else "Warning",
            "reason": "Sampled", "message": "Something happened.\n", "count": number,
            "source": {"component": "sampler"},
            "firstTimestamp": ago(minutes=minutes, seconds=seconds),
            "lastTimestamp": ago(minutes=minutes, seconds=seconds),
        })
    yield Sample("v1", "events", {
        "apiVersion": "v1", "kind": "Event", "metadata": named("bare"),
        "involvedObject": {"namespace": NAMESPACE}})
    yield Sample("events.k8s.io/v1", "events", {
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": named("new-style"),
        "regarding": {"apiVersion": "example.com/v1", "kind": "Sample", "name": "sample",
                      "namespace": NAMESPACE},
        "type": "Normal", "reason": "Sampled", "note": "Something happened.",
        "action": "Sampling", "eventTime": micro_ago(minutes=3),
        "reportingController": "example.com/sampler", "reportingInstance": "sampler-0",
        "series": {"count": 5, "lastObservedTime": micro_ago(minutes=1)}})


def apps() -> Iterator[Sample]:
    def sample(resource: str, kind: str, name: str, spec: Object,
               status: Object | None = None) -> Sample:
        return Sample("apps/v1", resource, {
            "apiVersion": "apps/v1", "kind": kind, "metadata": named(name), "spec": spec,
        }, status=status)

    spec = {"selector": {"matchLabels": APP}, "template": TEMPLATE}
    three = {**spec, "replicas": 3}
    yield sample("deployments", "Deployment", "minimal", spec)
    yield sample("deployments", "Deployment", "progressing", three, {
        "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 2,
        "availableReplicas": 1, "unavailableReplicas": 2})
    yield sample("statefulsets", "StatefulSet", "minimal", spec)
    yield sample("statefulsets", "StatefulSet", "progressing", {**three, "volumeClaimTemplates": [
        {"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}, {
        "replicas": 3, "readyReplicas": 1})
    yield sample("daemonsets", "DaemonSet", "minimal", spec)
    yield sample("daemonsets", "DaemonSet", "progressing", {
        "selector": {"matchLabels": APP},
        "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}},
    }, {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
        "updatedNumberScheduled": 2, "numberAvailable": 1, "numberMisscheduled": 0})
    yield sample("replicasets", "ReplicaSet", "minimal", spec)
    yield sample("replicasets", "ReplicaSet", "progressing", three, {
        "replicas": 2, "readyReplicas": 1})
    yield Sample("apps/v1", "controllerrevisions", {
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": named("sample"),
        "revision": 3, "data": {"any": "thing"}})


def batch() -> Iterator[Sample]:
    def sample(resource: str, kind: str, name: str, spec: Object,
               status: Object | None = None) -> Sample:
        return Sample("batch/v1", resource, {
            "apiVersion": "batch/v1", "kind": kind, "metadata": named(name), "spec": spec,
        }, status=status)

    spec = {"template": JOB_TEMPLATE}
    yield sample("jobs", "Job", "minimal", spec)
    yield sample("jobs", "Job", "running", {**spec, "completions": 5, "parallelism": 2}, {
        "startTime": ago(minutes=3, seconds=20), "active": 2, "succeeded": 1,
        "ready": 1, "terminating": 0, "uncountedTerminatedPods": {}})
    yield sample("jobs", "Job", "complete", spec, {
        "startTime": ago(hours=2), "completionTime": ago(hours=1), "succeeded": 1,
        "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": ago(hours=1)},
            {"type": "Complete", "status": "True", "lastTransitionTime": ago(hours=1)}]})
    yield sample("jobs", "Job", "suspended", {**spec, "suspend": True})
    yield sample("cronjobs", "CronJob", "minimal", {
        "schedule": "*/5 * * * *", "jobTemplate": {"spec": spec}})
    yield sample("cronjobs", "CronJob", "scheduled", {
        "schedule": "0 1 * * *", "timeZone": "Etc/UTC", "suspend": True,
        "jobTemplate": {"spec": spec}}, {
        "lastScheduleTime": ago(hours=5),
        "active": [{"kind": "Job", "apiVersion": "batch/v1", "name": "scheduled-1"}]})


def networking() -> Iterator[Sample]:
    def sample(resource: str, kind: str, name: str, **more: Any) -> Sample:
        options = {k: more.pop(k) for k in ("namespaced", "status") if k in more}
        return Sample("networking.k8s.io/v1", resource, {
            "apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": named(name), **more,
        }, **options)

    backend = {"service": {"name": "minimal", "port": {"number": 80}}}
    yield sample("ingresses", "Ingress", "minimal", spec={"defaultBackend": backend})
    yield sample("ingresses", "Ingress", "hosts", spec={
        "ingressClassName": "sample", "tls": [{"hosts": ["a.example.com"], "secretName": "tls"}],
        "rules": [
            {"host": host, "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": backend}]}}
            for host in ("a.example.com", "b.example.com", "c.example.com", "d.example.com")]},
        status={"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}})
    yield sample("ingressclasses", "IngressClass", "sample", namespaced=False,
                 spec={"controller": "example.com/ingress"})
    yield sample("networkpolicies", "NetworkPolicy", "minimal", spec={"podSelector": {}})
    yield sample("networkpolicies", "NetworkPolicy", "both", spec={
        "podSelector": {"matchLabels": APP}, "egress": [{"ports": [{"port": 53}]}]})
    for name, endpoints, ports in [
        ("none", [], None),
        ("some", [{"addresses": ["192.0.2.1"]}, {"addresses": ["192.0.2.2", "192.0.2.3"]},
                  {"addresses": ["192.0.2.4"]}], [{"port": 80}, {"name": "https", "port": 443}]),
    ]:
        body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": named(name), "addressType": "IPv4", "endpoints": endpoints}
        yield Sample("discovery.k8s.io/v1", "endpointslices", body | ({"ports": ports} if ports else {}))


def storage() -> Iterator[Sample]:
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    # A separate class: with a default class, the response would differ.
    yield Sample("v1", "persistentvolumeclaims", {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": named("minimal"),
        "spec": claim_spec})
    yield Sample("v1", "persistentvolumeclaims", {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": named("bound"),
        "spec": {**claim_spec, "storageClassName": "sample", "volumeName": "sample-volume"},
    }, status={"phase": "Bound", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
               "capacity": {"storage": "2Gi"}})
    yield Sample("v1", "persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": named("sample-volume"),
        "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                 "storageClassName": "sample", "hostPath": {"path": "/tmp"},
                 "claimRef": {"namespace": NAMESPACE, "name": "bound"}},
    }, namespaced=False, status={"phase": "Bound"})

    def sample(resource: str, kind: str, name: str, *, status: Object | None = None,
               namespaced: bool = False, **more: Any) -> Sample:
        meta = named(name, **more.pop("metadata", {}))
        return Sample("storage.k8s.io/v1", resource, {
            "apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": meta, **more,
        }, namespaced=namespaced, status=status)

    yield sample("storageclasses", "StorageClass", "sample-minimal", provisioner="example.com/disk")
    yield sample("storageclasses", "StorageClass", "sample-default", provisioner="example.com/disk",
                 metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                 reclaimPolicy="Retain", volumeBindingMode="WaitForFirstConsumer",
                 allowVolumeExpansion=True)
    yield sample("csidrivers", "CSIDriver", "sample.example.com", spec={})
    yield sample("csinodes", "CSINode", "sample-node", spec={
        "drivers": [{"name": "sample.example.com", "nodeID": "n"}]})
    yield sample("csistoragecapacities", "CSIStorageCapacity", "sample", namespaced=True,
                 storageClassName="sample", capacity="1Gi")
    yield sample("volumeattachments", "VolumeAttachment", "sample", spec={
        "attacher": "sample.example.com", "nodeName": "sample-ready",
        "source": {"persistentVolumeName": "sample-volume"}})
    yield sample("volumeattributesclasses", "VolumeAttributesClass", "sample",
                 driverName="sample.example.com", parameters={"iops": "100"})


def access() -> Iterator[Sample]:
    group = "rbac.authorization.k8s.io"

    def sample(resource: str, kind: str, namespaced: bool, **more: Any) -> Sample:
        return Sample(f"{group}/v1", resource, {
            "apiVersion": f"{group}/v1", "kind": kind, "metadata": named("sample"), **more,
        }, namespaced=namespaced)

    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    subjects = [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "devs"},
                {"kind": "ServiceAccount", "name": "sample", "namespace": NAMESPACE}]
    yield sample("roles", "Role", True, rules=rules)
    yield sample("clusterroles", "ClusterRole", False, rules=rules)
    yield sample("rolebindings", "RoleBinding", True, subjects=subjects,
                 roleRef={"apiGroup": group, "kind": "Role", "name": "sample"})
    yield sample("clusterrolebindings", "ClusterRoleBinding", False, subjects=subjects,
                 roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "sample"})


def extensions() -> Iterator[Sample]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    yield Sample("apiextensions.k8s.io/v1", "customresourcedefinitions", {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": named("samples.kopf.example.com"),
        "spec": {"group": "kopf.example.com", "scope": "Namespaced",
                 "names": {"plural": "samples", "kind": "Sample"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]},
    }, namespaced=False)
    for resource, kind in [
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    ]:
        yield Sample("admissionregistration.k8s.io/v1", resource, {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": named("sample"),
            "webhooks": [
                {"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                 "clientConfig": {"url": "https://127.0.0.1:1/a"},
                 # A kind without objects: the webhook does not exist.
                 "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["*"],
                            "operations": ["*"], "resources": ["*"]}]},
                {"name": "b.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                 "clientConfig": {"service": {"name": "sample", "namespace": NAMESPACE}}},
            ]}, namespaced=False)


def others() -> Iterator[Sample]:
    yield Sample("coordination.k8s.io/v1", "leases", {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named("empty")})
    yield Sample("coordination.k8s.io/v1", "leases", {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named("held"),
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15,
                 "renewTime": micro_ago(seconds=5)}})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "minimal"}
    yield Sample("autoscaling/v2", "horizontalpodautoscalers", {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": named("minimal"), "spec": {"maxReplicas": 3, "scaleTargetRef": target}})
    yield Sample("autoscaling/v2", "horizontalpodautoscalers", {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": named("busy"),
        "spec": {"maxReplicas": 5, "minReplicas": 2, "scaleTargetRef": target, "metrics": [
            {"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
            {"type": "Resource", "resource": {
                "name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}}]},
    }, status={"currentReplicas": 3, "desiredReplicas": 4, "currentMetrics": [
        {"type": "Resource", "resource": {
            "name": "cpu", "current": {"averageUtilization": 80, "averageValue": "200m"}}}]})
    yield Sample("autoscaling/v1", "horizontalpodautoscalers", {
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": named("older"), "spec": {
            "maxReplicas": 3, "targetCPUUtilizationPercentage": 70, "scaleTargetRef": target}})
    yield Sample("policy/v1", "poddisruptionbudgets", {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": named("minimal")})
    yield Sample("policy/v1", "poddisruptionbudgets", {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": named("computed"),
        "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": APP}},
    }, status={"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2,
               "expectedPods": 3})
    yield Sample("scheduling.k8s.io/v1", "priorityclasses", {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": named("sample"),
        "value": 1000, "description": "A sample."}, namespaced=False)
    yield Sample("node.k8s.io/v1", "runtimeclasses", {
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": named("sample"),
        "handler": "sample"}, namespaced=False)


# --- Recording.

def record(server: Server, say: Callable[[str], None]) -> Recorded:
    recorded = Recorded(tables=[], defaults=[])
    made: list[Sample] = []
    namespace = Sample("v1", "namespaces", {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, namespaced=False)
    try:
        server.request("POST", namespace.collection, namespace.body)
    except Refused as e:
        if e.code != 409:
            raise
        fail(f"the namespace {NAMESPACE!r} already exists (from an earlier recording?): "
             "delete it, or record from a new control plane")
    made.append(namespace)
    try:
        for sample in all_samples():
            moment = start_of_second()
            sent = resolved(sample.body, moment)
            stored = server.request("POST", sample.collection, sent)
            made.append(sample)
            normal = Normaliser(len(made), sent, stored)
            recorded.defaults.append(normal({
                "apiVersion": sample.api_version,
                "kind": sample.body["kind"],
                "resource": sample.resource,
                "sent": sent,
                "stored": stored,
            }, moment))
            recorded.tables.append(printed(server, sample, normal))
        say(f"recorded {len(made) - 1} samples")
    finally:
        for sample in reversed(made):
            try:
                remove(server, sample)
            except Refused as e:
                say(f"cannot delete a sample: {e}")
    return recorded


def printed(server: Server, sample: Sample, normal: "Normaliser") -> Object:
    """Writes the status, and returns the record of the object and of its row."""
    if sample.status is not None:
        status = resolved(sample.status, now())
        server.request(
            "PATCH", f"{sample.path}/status", {"status": status}, content_type=MERGE_PATCH)
    if sample.deleted:
        server.request("DELETE", sample.path)
    if sample.resource == "customresourcedefinitions":
        await_established(server, sample)
    seen, table, moment = read(server, sample)
    return normal({
        "apiVersion": sample.api_version,
        "kind": sample.body["kind"],
        "resource": sample.resource,
        "object": seen,
        "columns": [column["name"] for column in table["columnDefinitions"]],
        "row": table["rows"][0]["cells"],
        "now": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }, moment)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


def start_of_second() -> datetime.datetime:
    """
    Waits for a time at which all requests of one sample fit into one second.

    Otherwise, the recorded times would vary by a second between recordings.
    """
    fraction = time.time() % 1
    if fraction > 0.5:
        time.sleep(1 - fraction)
    return now()


def read(server: Server, sample: Sample) -> tuple[Object, Object, datetime.datetime]:
    """Returns the object and its row, read within the same second, as rows contain ages."""
    while True:
        moment = now()
        seen = server.get(sample.path)
        table = server.get(f"{sample.path}?includeObject=None", accept=TABLE)
        if now() == moment:
            return seen, table, moment


def await_established(server: Server, sample: Sample) -> None:
    for _ in range(100):
        conditions = server.get(sample.path).get("status", {}).get("conditions", [])
        if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return
        time.sleep(0.1)
    fail(f"{sample.name} is not established after 10 seconds")


def remove(server: Server, sample: Sample) -> None:
    # Some have finalizers of controllers that do not run here. (That of namespaces is in the spec,
    # and its controller runs.)
    if "finalizers" in server.get(sample.path)["metadata"]:
        server.request(
            "PATCH", sample.path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    if not sample.deleted:
        server.request("DELETE", f"{sample.path}?gracePeriodSeconds=0&propagationPolicy=Background")


class Normaliser:
    """
    Replaces values that differ between runs, consistently in all places.

    Values derived from them by the server (ages) stay valid.
    """

    def __init__(self, number: int, sent: Object, stored: Object) -> None:
        metadata = stored["metadata"]
        self.replaced = {metadata["uid"]: f"00000000-0000-4000-8000-{number:012}"}
        self.version = 1000 + number * 10
        self.first = metadata["resourceVersion"]
        # The server allocates a random cluster IP if none is requested.
        address = stored.get("spec", {}).get("clusterIP")
        if address and "clusterIP" not in sent["spec"]:
            self.replaced[address] = "10.0.0.100"

    def __call__(self, value: Any, moment: datetime.datetime) -> Any:
        if isinstance(value, list):
            return [self(item, moment) for item in value]
        if isinstance(value, dict):
            return {k: self.version_of(v) if k == "resourceVersion" and isinstance(v, str) else
                    self(v, moment) for k, v in value.items()}
        if not isinstance(value, str):
            return value
        if TIMESTAMP.fullmatch(value):
            return self.shifted(value, moment)
        # Also inside longer strings: cells contain selectors with them.
        for before, after in self.replaced.items():
            value = value.replace(before, after)
        return value

    def version_of(self, value: str) -> str:
        # Changes after the creation are still visible as changes.
        return str(self.version if value == self.first else self.version + 1)

    @staticmethod
    def shifted(value: str, moment: datetime.datetime) -> str:
        fraction = value[19:]
        whole = datetime.datetime.fromisoformat(value[:19] + "+00:00")
        return (whole - moment + MOMENT).strftime("%Y-%m-%dT%H:%M:%S") + fraction
