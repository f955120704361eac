"""All examples in Rust and Python as cases of `rights.py`: their options, objects and outcomes."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import yaml
from robots import CheckFailed, Robot

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
PEERINGS = EXAMPLES.parent / "crates" / "kopf-shipping" / "manifests" / "peering.yaml"
LAST = "kopf.zalando.org/last-handled-configuration"
PREFIX = "kopf.zalando.org/"
#: Annotations that are not the progress of handlers.
KNOWN = {"last-handled-configuration", "touch-dummy", "kopf-managed"}

Condition = Callable[[Any], object]


@dataclasses.dataclass(frozen=True)
class Case:
    """One example."""

    name: str
    #: The program and its first arguments.
    command: tuple[str, ...]
    #: The last arguments, after the options.
    files: tuple[str, ...] = ()
    #: Permissions for requests of the handlers.
    allow: tuple[str, ...] = ()
    #: Further options of `rbac` and of `run`.
    rbac: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    #: The example with the same handlers whose `rbac` is used, if this one has no command line.
    like: Case | None = None
    environment: tuple[tuple[str, str], ...] = ()
    crds: pathlib.Path = EXAMPLES / "crd.yaml"
    obj: pathlib.Path = EXAMPLES / "obj.yaml"
    plural: str = "kopfexamples"
    #: The state of the object after its creation is handled; `None` if the object does not show it.
    handled: Condition | None = dataclasses.field(default=lambda body: is_handled(body))
    #: The rest of the story, with the path of the object.
    act: Callable[[Robot, str], None] = lambda robot, path: None
    #: Serves the namespace of the case, or the whole cluster.
    clusterwide: bool = False
    #: Nothing else may have objects of the examples at the same time.
    alone: bool = False


def is_handled(body: Any) -> bool:
    """Returns `True` if the object is handled, and no handler is in progress."""
    annotations = body["metadata"].get("annotations") or {}
    own = {key.removeprefix(PREFIX) for key in annotations if key.startswith(PREFIX)}
    return "last-handled-configuration" in own and own <= KNOWN


def has(*keys: str) -> Condition:
    """Returns a condition: the object has a value at this path."""

    def check(body: Any) -> bool:
        for key in keys:
            body = (body or {}).get(key)
        return bool(body)

    return check


def is_noticed(body: Any) -> bool:
    """Returns `True` if the object is handled, and its timer has run, which can happen before."""
    return is_handled(body) and has("status", "noticed")(body)


def finds(condition: Condition, robot: Robot, path: str) -> Callable[[], bool]:
    """Returns a check: the object exists and fulfils the condition."""

    def check() -> bool:
        body = robot.get(path)
        return body is not None and bool(condition(body))

    return check


def says(*messages: str) -> Callable[[Robot, str], None]:
    """Waits for log messages."""

    def act(robot: Robot, path: str) -> None:
        for message in messages:
            robot.until(f"the log has {message!r}", lambda: message in robot.log())

    return act


def changed(*messages: str) -> Callable[[Robot, str], None]:
    """Changes the object, and waits for log messages and the end of the handling."""

    def act(robot: Robot, path: str) -> None:
        robot.merge(path, {"spec": {"field": "new"}})
        says(*messages)(robot, path)
        robot.until("the change is handled", finds(_has_new_field, robot, path))

    return act


def _has_new_field(body: Any) -> bool:
    last = body["metadata"]["annotations"][LAST]
    return bool(json.loads(last)["spec"]["field"] == "new") and is_handled(body)


def greeted(robot: Robot, path: str) -> None:
    """Waits for the first attempt, which fails: the name is missing."""
    says("Handler 'greet' failed temporarily")(robot, path)


def expired(robot: Robot, path: str) -> None:
    """Relabels a claim, then lets it expire."""
    robot.merge(path, {"metadata": {"labels": {"owner": "me"}}, "spec": {"expiresAfter": 1}})
    says("PVC my-claim is relabelled.")(robot, path)
    robot.until("the claim is gone", lambda: robot.get(path) is None)
    claims = f"/api/v1/namespaces/{robot.name}/persistentvolumeclaims"
    # Nothing else releases claims here, and they keep their namespace.
    robot.merge(f"{claims}/my-claim", {"metadata": {"finalizers": None}})


def executed(robot: Robot, path: str) -> None:
    """Ends the pods of a load test."""
    pods = f"/api/v1/namespaces/{robot.name}/pods"
    for pod in robot.admin.request("GET", pods)["items"]:
        robot.merge(f"{pods}/{pod['metadata']['name']}/status", {"status": {"phase": "Succeeded"}})
    robot.until("the test is finished", lambda: robot.get(path)["status"]["state"] == "finished")


def welcomed(robot: Robot, path: str) -> None:
    """Does the work of the other operator for a tenant."""
    nats = f"/apis/kopf.dev/v1/namespaces/{robot.name}/nats/acme"
    robot.until("the NATS object is created", lambda: robot.get(nats))
    robot.merge(f"{nats}/status", {"status": {"url": "nats://somewhere:4222"}})
    is_ready = finds(lambda body: body["status"].get("phase") == "ready", robot, path)
    robot.until("the tenant is welcome", is_ready)


def reviewed(robot: Robot, path: str) -> None:
    """Waits until an invalid object is denied."""
    objects, name = path.rsplit("/", 1)
    manifest = yaml.safe_load((EXAMPLES / "obj.yaml").read_text())
    manifest["metadata"]["name"] = f"{name}-wrong"
    manifest["spec"]["field"] = "wrong"

    def is_denied() -> bool:
        from kopf.testing import ClusterError

        try:
            robot.admin.request("POST", f"{objects}?dryRun=All", manifest)
        except ClusterError as exc:
            return "This field is wrong." in str(exc)
        return False

    robot.until("an invalid object is denied", is_denied)


def peered(robot: Robot, path: str) -> None:
    """Checks that the operator takes part in the peering of its namespace."""
    peering = f"/apis/kopf.dev/v1/namespaces/{robot.name}/kopfpeerings/default"
    robot.until("the operator is a peer", finds(has("status"), robot, peering))
    changed("Handled the update")(robot, path)


def leading(robot: Robot, path: str) -> None:
    """Checks that the operator holds the Lease."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{robot.name}/leases"
    found = robot.admin.request("GET", leases)["items"]
    holders = [lease["spec"].get("holderIdentity") for lease in found]
    if not any(holders):
        raise CheckFailed(f"no Lease is held: {found}")


LEADER: dict[str, Any] = {
    "rbac": ("--leader-elect",),
    "run": ("--leader-elect-name", "e2e"),
    "act": leading,
}

#: What both languages have in common: the name of the example, and its part of the case.
COMMON: dict[str, dict[str, Any]] = {
    "01-minimal": {"handled": has("status", "create_fn")},
    "02-children": {"handled": has("status", "create_pod"), "allow": ("create:pods",)},
    "03-exceptions": {},
    "04-events": {},
    "05-handlers": {"act": changed("UPDATED", "FIELD")},
    "06-peering": {"act": peered, "rbac": ("--peering", "default"), "run": ("--peering", "default")},
    "07-subhandlers": {},
    "08-raw-events": {"handled": None, "act": says(": kopf-example-1")},
    "10-builtins": {
        "allow": ("delete:pods",),
        "environment": (("MAX_AGE", "2"),),
        "obj": EXAMPLES.parent / "tests" / "e2e" / "pod.yaml",
        "plural": "pods",
        "handled": None,
        "act": lambda robot, path: robot.until("the pod is gone", lambda: robot.get(path) is None),
    },
    "11-filtering": {},
    "13-hooks": {},
    "14-daemons": {"handled": has("metadata", "finalizers"), "act": says("inging")},
    "15-timers": {"handled": has("status", "count")},
    "16-indexing": {"handled": has("status", "look")},
    "19-reconcile": {"handled": has("status", "synced")},
    "17-admission": {
        "rbac": ("--managed-webhooks", "auto.kopf.dev"),
        "handled": None,
        "act": reviewed,
        "alone": True,
    },
    "99-all-at-once": {"handled": is_noticed, "act": changed("UPDATED", "FIELD")},
}


def rust(binaries: pathlib.Path) -> list[Case]:
    """Returns the examples in Rust."""

    def case(name: str, variant: str = "", **options: Any) -> Case:
        return Case(name=f"rust-{name}{variant}", command=(str(binaries / name),), **options)

    def folder(name: str) -> pathlib.Path:
        return EXAMPLES / "rust" / name

    tenants = folder("tenant-onboarding") / "crds.yaml"
    return [
        *(case(name, **options) for name, options in COMMON.items()),
        case("09-testing", handled=None, act=greeted),
        case("12-embedded", like=case("01-minimal")),
        case(
            "ephemeral-volume-claims",
            crds=folder("ephemeral-volume-claims") / "crd.yaml",
            obj=folder("ephemeral-volume-claims") / "obj.yaml",
            plural="ephemeralvolumeclaims",
            allow=(
                "create,patch:persistentvolumeclaims",
                "list:pods",
                "delete:ephemeralvolumeclaims.kopf.dev",
            ),
            handled=has("status", "create_fn"),
            act=expired,
        ),
        case(
            "load-testing",
            crds=folder("load-testing") / "crd.yaml",
            obj=folder("load-testing") / "example-02.yaml",
            plural="loadtests",
            allow=("create,deletecollection:pods",),
            handled=has("status", "children"),
            act=executed,
        ),
        case(
            "own-program",
            crds=folder("own-program") / "crd.yaml",
            obj=folder("own-program") / "obj.yaml",
            plural="greetings",
            handled=has("status", "message"),
        ),
        case(
            "simple-deployment",
            crds=folder("simple-deployment") / "crd.yaml",
            obj=folder("simple-deployment") / "example-01.yaml",
            plural="simpledeployments",
            allow=("create:pods",),
            handled=has("status", "create_function"),
        ),
        case(
            "tenant-onboarding",
            crds=tenants,
            obj=folder("tenant-onboarding") / "tenant.yaml",
            plural="tenants",
            # As for the manifests in examples/deploy.
            allow=("create,get:configmaps", "create,get:nats.kopf.dev"),
            handled=has("status", "create_blob_storage"),
            act=welcomed,
        ),
        case(
            "tenant-nats",
            crds=tenants,
            obj=folder("tenant-nats") / "nats.yaml",
            plural="nats",
            allow=("create:services",),
            handled=has("status", "url"),
        ),
        case(
            "01-minimal",
            "-clusterwide",
            clusterwide=True,
            alone=True,
            handled=has("status", "create_fn"),
        ),
        case("06-peering", "-leader", **LEADER),
    ]


def python() -> list[Case]:
    """Returns the examples in Python, run by this interpreter."""
    kopf = (sys.executable, "-m", "kopf")

    def case(name: str, variant: str = "", **options: Any) -> Case:
        file = str(EXAMPLES / "python" / name / "handlers.py")
        return Case(name=f"python-{name}{variant}", command=kopf, files=(file,), **options)

    return [
        *(case(name, **options) for name, options in COMMON.items()),
        case("09-testing", handled=has("status", "greeted")),
        Case(
            name="python-12-embedded",
            # The file has the name of a module of the standard library.
            command=(sys.executable, "-P"),
            files=(str(EXAMPLES / "python" / "12-embedded" / "handlers.py"),),
            like=case("01-minimal"),
            clusterwide=True,
            alone=True,
        ),
        case(
            "18-typed",
            obj=EXAMPLES.parent / "tests" / "e2e" / "gateway.yaml",
            plural="gateways",
            rbac=("--install-crds",),
            run=("--install-crds",),
            handled=has("status", "open_ports"),
        ),
        case("06-peering", "-leader", **LEADER),
    ]
