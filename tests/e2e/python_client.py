#!/usr/bin/env python3
"""Tests common requests of the official Python client, with the same expectations on every server.

Usage: python_client.py KUBECONFIG
Each check prints "ok" or "FAILED" with the reason; the last line counts them.
"""
import base64
import contextlib
import json
import random
import sys
import threading
import time
import traceback

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, UnprocessibleEntityError

SUFFIX = f"{random.randrange(16 ** 5):05x}"
NAMESPACE = f"e2e-py-{SUFFIX}"
GROUP = f"e2e-py-{SUFFIX}.kopf.dev"
PLURAL = f"shells{SUFFIX}"
KIND = f"Shell{SUFFIX}"

CHECKS = []


def check(function):
    """Registers a check; its name is the name of the function."""
    CHECKS.append(function)
    return function


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"expected {expected!r}, found {found!r}")


@contextlib.contextmanager
def refused(status, reason):
    """Asserts that the block fails with this HTTP status and this reason in the body."""
    try:
        yield
    except ApiException as error:
        equal(error.status, status)
        equal(json.loads(error.body)["reason"], reason)
        equal(json.loads(error.body)["kind"], "Status")
    else:
        raise AssertionError(f"expected {status} {reason}, but it is not refused")


def config_map(name, labels=None, **data):
    metadata = client.V1ObjectMeta(name=name, labels=labels)
    return client.V1ConfigMap(metadata=metadata, data=data)


class Server:
    def __init__(self):
        self.core = client.CoreV1Api()
        self.apps = client.AppsV1Api()
        self.custom = client.CustomObjectsApi()
        self.extensions = client.ApiextensionsV1Api()

    def create(self, name, labels=None, **data):
        return self.core.create_namespaced_config_map(NAMESPACE, config_map(name, labels, **data))

    def read(self, name):
        return self.core.read_namespaced_config_map(name, NAMESPACE)

    def delete(self, name, **options):
        return self.core.delete_namespaced_config_map(name, NAMESPACE, **options)

    def listed(self, **options):
        return self.core.list_namespaced_config_map(NAMESPACE, **options)


def names(objects):
    return sorted(item.metadata.name for item in objects.items)


# --- The server.

@check
def version_is_returned(server):
    equal(client.VersionApi().get_code().major, "1")


@check
def groups_are_discovered(server):
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    missing = {"apps", "batch", "apiextensions.k8s.io", "events.k8s.io", "coordination.k8s.io"} - groups
    equal(missing, set())


@check
def resources_are_discovered(server):
    resources = {resource.name: resource for resource in server.core.get_api_resources().resources}
    equal(resources["pods"].short_names, ["po"])
    equal(resources["namespaces"].namespaced, False)
    equal("pods/status" in resources, True)


# --- Objects.

@check
def created_objects_have_metadata(server):
    created = server.create("meta", a="1")
    equal(created.metadata.namespace, NAMESPACE)
    equal(len(created.metadata.uid), 36)
    equal(created.metadata.resource_version.isdigit(), True)
    equal(created.metadata.creation_timestamp.tzinfo is not None, True)
    equal(server.read("meta").data, {"a": "1"})


@check
def existing_objects_are_409(server):
    server.create("twin")
    with refused(409, "AlreadyExists"):
        server.create("twin")


@check
def absent_objects_are_404(server):
    with refused(404, "NotFound"):
        server.read("absent")
    with refused(404, "NotFound"):
        server.delete("absent")


@check
def invalid_objects_are_422(server):
    with refused(422, "Invalid"):
        server.create("Bad_Name")


@check
def names_are_generated(server):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="made-"))
    created = server.core.create_namespaced_config_map(NAMESPACE, body)
    equal(created.metadata.name.startswith("made-"), True)
    equal(len(created.metadata.name), 10)


@check
def dry_runs_store_nothing(server):
    server.core.create_namespaced_config_map(NAMESPACE, config_map("dry"), dry_run="All")
    with refused(404, "NotFound"):
        server.read("dry")


@check
def secrets_are_bytes(server):
    body = client.V1Secret(metadata=client.V1ObjectMeta(name="word"), string_data={"word": "sesame"})
    server.core.create_namespaced_secret(NAMESPACE, body)
    secret = server.core.read_namespaced_secret("word", NAMESPACE)
    equal(base64.b64decode(secret.data["word"]), b"sesame")


@check
def stale_replacements_are_409(server):
    stale = server.create("stale", a="1")
    server.core.patch_namespaced_config_map("stale", NAMESPACE, {"data": {"a": "2"}})
    stale.data = {"a": "3"}
    with refused(409, "Conflict"):
        server.core.replace_namespaced_config_map("stale", NAMESPACE, stale)
    equal(server.read("stale").data, {"a": "2"})


@check
def replacing_without_a_version_is_allowed(server):
    server.create("replaced", a="1")
    server.core.replace_namespaced_config_map("replaced", NAMESPACE, config_map("replaced", b="2"))
    equal(server.read("replaced").data, {"b": "2"})


@check
def deletion_preconditions_are_checked(server):
    created = server.create("precondition")
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    with refused(409, "Conflict"):
        server.delete("precondition", body=wrong)
    right = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=created.metadata.uid))
    server.delete("precondition", body=right)
    with refused(404, "NotFound"):
        server.read("precondition")


@check
def finalizers_hold_objects(server):
    body = config_map("held")
    body.metadata.finalizers = ["kopf.dev/e2e"]
    server.core.create_namespaced_config_map(NAMESPACE, body)
    server.delete("held")
    equal(server.read("held").metadata.deletion_timestamp is not None, True)
    server.core.patch_namespaced_config_map("held", NAMESPACE, {"metadata": {"finalizers": None}})
    with refused(404, "NotFound"):
        server.read("held")


@check
def collections_are_deleted_by_label(server):
    for name in ("gone-1", "gone-2"):
        server.create(name, labels={"gone": "yes"})
    server.create("gone-not", labels={"gone": "no"})
    server.core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="gone=yes")
    equal(names(server.listed(label_selector="gone")), ["gone-not"])


# --- Patches.

def patch(server, path, body, content_type):
    # The other methods select the content type by the type of the body.
    request = dynamic.DynamicClient(server.core.api_client).request
    return json.loads(request("patch", path, body=body, content_type=content_type, serialize=False).data)


@check
def merge_patches_remove_by_null(server):
    server.create("merge", a="1", b="2")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/merge"
    found = patch(server, path, {"data": {"a": None, "c": "3"}}, "application/merge-patch+json")
    equal(found["data"], {"b": "2", "c": "3"})


@check
def json_patches_are_done_in_order(server):
    server.create("steps", a="1")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/steps"
    steps = [{"op": "test", "path": "/data/a", "value": "1"},
             {"op": "move", "from": "/data/a", "path": "/data/b"},
             {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]
    found = patch(server, path, steps, "application/json-patch+json")
    equal((found["data"], found["metadata"]["labels"]), ({"b": "1"}, {"x": "y"}))


@check
def failed_json_patches_change_nothing(server):
    server.create("untouched", a="1")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/untouched"
    steps = [{"op": "add", "path": "/data/b", "value": "2"}, {"op": "test", "path": "/data/a", "value": "9"}]
    with refused(422, "Invalid"):
        patch(server, path, steps, "application/json-patch+json")
    equal(server.read("untouched").data, {"a": "1"})


@check
def strategic_patches_merge_lists_by_key(server):
    containers = [client.V1Container(name=name, image="nginx") for name in ("one", "two")]
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=containers))
    spec = client.V1DeploymentSpec(
        replicas=1, selector=client.V1LabelSelector(match_labels={"app": "web"}), template=template)
    body = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    server.apps.create_namespaced_deployment(NAMESPACE, body)
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/web"
    change = {"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "redis"}]}}}}
    found = patch(server, path, change, "application/strategic-merge-patch+json")
    images = {c["name"]: c["image"] for c in found["spec"]["template"]["spec"]["containers"]}
    equal(images, {"one": "nginx", "two": "redis"})


@check
def unknown_patches_are_415(server):
    server.create("unknown")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/unknown"
    with refused(415, "UnsupportedMediaType"):
        patch(server, path, "{}", "application/nonsense")


@check
def empty_patches_change_no_version(server):
    before = server.create("noop", a="1")
    after = server.core.patch_namespaced_config_map("noop", NAMESPACE, {"data": {"a": "1"}})
    equal(after.metadata.resource_version, before.metadata.resource_version)


# --- Subresources.

@check
def deployments_are_scaled(server):
    server.apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 5}})
    equal(server.apps.read_namespaced_deployment_scale("web", NAMESPACE).spec.replicas, 5)
    deployment = server.apps.read_namespaced_deployment("web", NAMESPACE)
    equal(deployment.spec.replicas, 5)


@check
def status_and_spec_do_not_mix(server):
    before = server.apps.read_namespaced_deployment("web", NAMESPACE)
    change = {"spec": {"replicas": 9}, "status": {"replicas": 3}}
    after = server.apps.patch_namespaced_deployment_status("web", NAMESPACE, change)
    equal((after.spec.replicas, after.status.replicas), (5, 3))
    equal(after.metadata.generation, before.metadata.generation)
    after = server.apps.patch_namespaced_deployment("web", NAMESPACE, {"status": {"replicas": 7}})
    equal(after.status.replicas, 3)


# --- Lists and watches.

@check
def selectors_select(server):
    for name, colour in (("sel-a", "red"), ("sel-b", "blue"), ("sel-c", "green")):
        server.create(name, labels={"colour": colour})
    equal(names(server.listed(label_selector="colour in (red, blue)")), ["sel-a", "sel-b"])
    equal(names(server.listed(label_selector="colour,colour!=red")), ["sel-b", "sel-c"])
    equal(names(server.listed(field_selector="metadata.name=sel-c")), ["sel-c"])


@check
def broken_selectors_are_400(server):
    with refused(400, "BadRequest"):
        server.listed(label_selector="a in (b")


@check
def lists_are_paged(server):
    for number in range(5):
        server.create(f"page-{number}", labels={"paged": "yes"})
    found, token, pages = [], None, 0
    while True:
        page = server.listed(label_selector="paged=yes", limit=2, _continue=token)
        found += [item.metadata.name for item in page.items]
        pages += 1
        token = page.metadata._continue
        if not token:
            break
    equal((found, pages), ([f"page-{number}" for number in range(5)], 3))


@check
def broken_continue_tokens_are_400(server):
    with refused(400, "BadRequest"):
        server.listed(limit=1, _continue="nonsense")


@check
def watches_start_at_a_version(server):
    version = server.listed().metadata.resource_version
    server.create("seen", labels={"seen": "yes"}, a="1")
    server.create("unseen")
    server.core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"a": "2"}})
    server.delete("seen")
    events = []
    stream = watch.Watch().stream(
        server.core.list_namespaced_config_map, NAMESPACE, resource_version=version,
        label_selector="seen=yes", timeout_seconds=10)
    for event in stream:
        events.append((event["type"], event["object"].data))
        if event["type"] == "DELETED":
            break
    equal(events, [("ADDED", {"a": "1"}), ("MODIFIED", {"a": "2"}), ("DELETED", {"a": "2"})])


@check
def watches_see_selectors_as_appearing_and_disappearing(server):
    server.create("moving")
    version = server.listed().metadata.resource_version
    for value in ("yes", None):
        server.core.patch_namespaced_config_map(
            "moving", NAMESPACE, {"metadata": {"labels": {"moving": value}}})
    stream = watch.Watch().stream(
        server.core.list_namespaced_config_map, NAMESPACE, resource_version=version,
        label_selector="moving=yes", timeout_seconds=10)
    equal([next(stream)["type"], next(stream)["type"]], ["ADDED", "DELETED"])


@check
def watches_are_live(server):
    version = server.listed().metadata.resource_version
    timer = threading.Timer(0.3, lambda: server.create("live"))
    timer.start()
    stream = watch.Watch().stream(
        server.core.list_namespaced_config_map, NAMESPACE, resource_version=version,
        timeout_seconds=20)
    event = next(stream)
    timer.join()
    equal((event["type"], event["object"].metadata.name), ("ADDED", "live"))


@check
def watches_end_in_time(server):
    version = server.listed().metadata.resource_version
    response = server.core.list_namespaced_config_map(
        NAMESPACE, resource_version=version, watch=True, timeout_seconds=1, _preload_content=False)
    equal(response.read(), b"")


# --- Custom resources.

@check
def definitions_are_established(server):
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "white"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{PLURAL}.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced",
                     "names": {"plural": PLURAL, "kind": KIND, "singular": KIND.lower()},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "subresources": {"status": {}},
                                   "schema": {"openAPIV3Schema": schema}}]}}
    server.extensions.create_custom_resource_definition(body)
    deadline = time.monotonic() + 20
    while True:
        found = server.extensions.read_custom_resource_definition(f"{PLURAL}.{GROUP}")
        conditions = {c.type: c.status for c in found.status.conditions or []}
        if conditions.get("Established") == "True":
            break
        if time.monotonic() > deadline:
            raise AssertionError(f"it is not established: {conditions}")
        time.sleep(0.1)
    equal(conditions["NamesAccepted"], "True")
    # A real server serves the kind with a delay after the condition is set.
    while time.monotonic() < deadline:
        with contextlib.suppress(ApiException):
            server.custom.list_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL)
            break
        time.sleep(0.1)


def shell(name, **spec):
    return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": name}, "spec": spec}


@check
def custom_objects_are_defaulted_and_pruned(server):
    body = shell("first", size=3, unknown=1)
    created = server.custom.create_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, body)
    equal(created["spec"], {"size": 3, "colour": "white"})
    equal(created["metadata"]["generation"], 1)


@check
def custom_objects_are_validated(server):
    with refused(422, "Invalid"):
        server.custom.create_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, shell("bad", size=0))


@check
def custom_objects_have_a_status(server):
    server.custom.patch_namespaced_custom_object_status(
        GROUP, "v1", NAMESPACE, PLURAL, "first", {"spec": {"size": 9}, "status": {"state": "open"}})
    found = server.custom.get_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, "first")
    equal((found["spec"]["size"], found["status"], found["metadata"]["generation"]), (3, {"state": "open"}, 1))


@check
def custom_objects_are_patched_and_listed(server):
    server.custom.patch_namespaced_custom_object(
        GROUP, "v1", NAMESPACE, PLURAL, "first", {"spec": {"size": 4}})
    found = server.custom.list_cluster_custom_object(GROUP, "v1", PLURAL)
    equal(found["kind"], f"{KIND}List")
    equal([(o["spec"]["size"], o["metadata"]["generation"]) for o in found["items"]], [(4, 2)])


@check
def custom_objects_are_watched(server):
    version = server.custom.list_namespaced_custom_object(
        GROUP, "v1", NAMESPACE, PLURAL)["metadata"]["resourceVersion"]
    server.custom.create_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, shell("watched", size=1))
    server.custom.delete_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, "watched")
    stream = watch.Watch().stream(
        server.custom.list_namespaced_custom_object, GROUP, "v1", NAMESPACE, PLURAL,
        resource_version=version, timeout_seconds=10)
    equal([next(stream)["type"], next(stream)["type"]], ["ADDED", "DELETED"])


@check
def the_dynamic_client_finds_kinds(server):
    found = dynamic.DynamicClient(server.core.api_client).resources.get(api_version=f"{GROUP}/v1", kind=KIND)
    equal((found.name, found.namespaced, "patch" in found.verbs), (PLURAL, True, True))


@check
def the_dynamic_client_works_with_custom_objects(server):
    resource = dynamic.DynamicClient(server.core.api_client).resources.get(api_version=f"{GROUP}/v1", kind=KIND)
    resource.create(body=shell("dynamic", size=1), namespace=NAMESPACE)
    resource.patch(name="dynamic", namespace=NAMESPACE, body={"spec": {"size": 2}},
                   content_type="application/merge-patch+json")
    equal(resource.get(name="dynamic", namespace=NAMESPACE).spec.size, 2)
    for expected, action in (
        (ConflictError, lambda: resource.create(body=shell("dynamic", size=1), namespace=NAMESPACE)),
        (NotFoundError, lambda: resource.get(name="absent", namespace=NAMESPACE)),
        (UnprocessibleEntityError, lambda: resource.create(body=shell("bad", size=0), namespace=NAMESPACE)),
    ):
        try:
            action()
        except expected:
            continue
        raise AssertionError(f"expected {expected.__name__}")
    resource.delete(name="dynamic", namespace=NAMESPACE)


@check
def the_dynamic_client_watches(server):
    resource = dynamic.DynamicClient(server.core.api_client).resources.get(api_version="v1", kind="ConfigMap")
    for event in resource.watch(namespace=NAMESPACE, name="meta", timeout=10):
        equal((event["type"], event["object"].metadata.name), ("ADDED", "meta"))
        break
    else:
        raise AssertionError("there are no events")


@check
def deleted_definitions_are_not_served(server):
    server.extensions.delete_custom_resource_definition(f"{PLURAL}.{GROUP}")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            server.custom.list_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL)
        except ApiException as error:
            equal(error.status, 404)
            return
        time.sleep(0.1)
    raise AssertionError("it is still served")


# --- Reviews and leases, which operators use at startup.

@check
def access_reviews_are_answered(server):
    attributes = client.V1ResourceAttributes(verb="list", resource="pods", namespace=NAMESPACE)
    body = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    answer = client.AuthorizationV1Api().create_self_subject_access_review(body)
    equal(answer.status.allowed, True)


@check
def leases_are_kept(server):
    leases = client.CoordinationV1Api()
    spec = client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15)
    body = client.V1Lease(metadata=client.V1ObjectMeta(name="leader"), spec=spec)
    created = leases.create_namespaced_lease(NAMESPACE, body)
    created.spec.holder_identity = "you"
    equal(leases.replace_namespaced_lease("leader", NAMESPACE, created).spec.holder_identity, "you")


@check
def namespaces_take_their_objects_with_them(server):
    server.core.delete_namespace(NAMESPACE)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            phase = server.core.read_namespace(NAMESPACE).status.phase
        except ApiException as error:
            equal(error.status, 404)
            break
        equal(phase, "Terminating")
        time.sleep(0.2)
    else:
        raise AssertionError("it is still there")
    with refused(404, "NotFound"):
        server.read("meta")


def clean_up(server):
    """Removes the remaining objects after failed checks."""
    with contextlib.suppress(ApiException):
        server.extensions.delete_custom_resource_definition(f"{PLURAL}.{GROUP}")
    with contextlib.suppress(ApiException):
        for item in server.listed().items:
            if item.metadata.finalizers:
                server.core.patch_namespaced_config_map(
                    item.metadata.name, NAMESPACE, {"metadata": {"finalizers": None}})
        server.core.delete_namespace(NAMESPACE)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    config.load_kube_config(sys.argv[1])
    server = Server()
    server.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    passed = failed = 0
    try:
        for function in CHECKS:
            name = function.__name__.replace("_", " ")
            try:
                function(server)
            except Exception as error:  # any failure is a result to report
                failed += 1
                print(f"FAILED  {name}")
                reason = str(error) if isinstance(error, AssertionError) else traceback.format_exc(limit=4)
                for line in reason.strip().splitlines()[-12:]:
                    print(f"        {line}")
            else:
                passed += 1
                print(f"ok      {name}")
    finally:
        clean_up(server)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
