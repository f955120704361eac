"""Fixtures for the tests of the examples.

The tests run on a sandbox in the same process, or on the cluster of `KOPF_TEST_KUBECONFIG`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

#: A real cluster in place of a sandbox. Client libraries read the variable at import.
KUBECONFIG = os.environ.get("KOPF_TEST_KUBECONFIG")
if KUBECONFIG is not None:
    os.environ["KUBECONFIG"] = KUBECONFIG

import kopf  # noqa: E402
from kopf.testing import KopfRunner, sandbox  # noqa: E402

EXAMPLES = pathlib.Path(__file__).parent.parent

#: Seconds; far longer than the time between the two writes of a cycle.
MOMENT = 1.0


@pytest.fixture
def crds() -> list[pathlib.Path]:
    """The manifests to load; overridden by some examples."""
    return [EXAMPLES / "crd.yaml"]


@pytest.fixture
def cluster(crds: list[pathlib.Path]) -> Iterator[Any]:
    """A cluster with the custom resource of the examples."""
    if KUBECONFIG is None:
        with sandbox(*crds) as started:
            yield started
        return
    from kopf.testing import ClusterClient, ClusterError

    client = ClusterClient(KUBECONFIG)
    for manifest in (m for crd in crds for m in yaml.safe_load_all(crd.read_text())):
        with contextlib.suppress(ClusterError):
            client.create(manifest)
    yield client
    # Other tests on the same cluster use other namespaces, and clean them up.
    for item in client.all("kopfexamples", namespace="default"):
        name = item["metadata"]["name"]
        with contextlib.suppress(ClusterError):
            client.patch("kopfexamples", name, {"metadata": {"finalizers": None}})
            client.delete("kopfexamples", name)


@pytest.fixture
def obj() -> dict[str, Any]:
    """The object of the examples."""
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / "obj.yaml").read_text())
    return manifest


@pytest.fixture(autouse=True)
def registry() -> Iterator[kopf.OperatorRegistry]:
    """A new default registry for each test, with the default logins."""
    from kopf._core.intents.registries import SmartOperatorRegistry

    previous = kopf.get_default_registry()
    kopf.set_default_registry(SmartOperatorRegistry())
    yield kopf.get_default_registry()
    kopf.set_default_registry(previous)


@pytest.fixture
def operate(request: pytest.FixtureRequest, cluster: Any) -> Callable[..., KopfRunner]:
    """Runs the operator of the example: `with operate() as runner: …`."""
    program = request.path.parent / "handlers.py"

    def start(*args: str) -> KopfRunner:
        scope = [] if "-n" in args else ["--all-namespaces"]
        command = ["run", *scope, "--verbose", *args, str(program)]
        return KopfRunner(
            command if "--peering" in args else [*command, "--standalone"], timeout=30
        )

    return start


@pytest.fixture
def await_message(caplog: pytest.LogCaptureFixture) -> Callable[[str], None]:
    """Waits for a log message of the operator."""
    caplog.set_level("INFO")

    def wait(text: str) -> None:
        deadline = time.monotonic() + 20
        while not any(text in message for message in list(caplog.messages)):
            assert time.monotonic() < deadline, f"no message {text!r}"
            time.sleep(0.05)

    return wait


@pytest.fixture
def handled() -> Callable[[Any], bool]:
    """Returns a condition: the object is handled, and no handler is in progress.

    The condition must be true for `MOMENT`: the status is written after the annotations.
    """
    since: dict[str, float] = {}

    def check(body: Any) -> bool:
        annotations = body["metadata"].get("annotations") or {}
        is_handled = "kopf.zalando.org/last-handled-configuration" in annotations and not any(
            key.startswith("kopf.zalando.org/") and key.partition("/")[2] not in KNOWN
            for key in annotations
        )
        uid = body["metadata"]["uid"]
        if not is_handled:
            since.pop(uid, None)
            return False
        return time.monotonic() - since.setdefault(uid, time.monotonic()) > MOMENT

    return check


#: Annotations of the framework that are not progress records.
KNOWN = ("last-handled-configuration", "touch-dummy")
