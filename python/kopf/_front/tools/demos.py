"""`kopf demo`: an operator on a sandbox, and the life of one object, step by step."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

from kopf._front.tools.sandboxes import open_page, sandbox, wait_for_signal

__all__ = ["run"]

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "bakeries.demo.kopf.dev"},
    "spec": {
        "group": "demo.kopf.dev",
        "scope": "Namespaced",
        "names": {"plural": "bakeries", "singular": "bakery", "kind": "Bakery"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["bread"],
                                "properties": {
                                    "bread": {"type": "string"},
                                    "loaves": {"type": "integer", "minimum": 0, "default": 10},
                                },
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}

BAKERY: dict[str, Any] = {
    "apiVersion": "demo.kopf.dev/v1",
    "kind": "Bakery",
    "metadata": {"name": "corner"},
    "spec": {"bread": "rye"},
}

#: The attributes of objects that the demo shows.
_SHOWN = ("spec", "status")


def run(*, once: bool = False) -> None:
    """Runs the demo; then, unless `once`, keeps everything running until a signal."""
    import click

    from kopf._front.bridge import loggers

    began = time.monotonic()
    with sandbox(CRD, environ=True) as cluster:
        _step("A Kubernetes API in this process, with a custom resource: bakeries")
        _explain(f"{cluster.url} is ready after {1000 * (time.monotonic() - began):.0f} ms")
        _step("An operator with three handlers: create, update, delete")
        loggers.configure(log_format=loggers.LogFormat.PLAIN, log_prefix=True)
        for name in ("kopf.activities", "kopf._core.engines", "kopf._core.reactor"):
            logging.getLogger(name).setLevel(logging.ERROR)
        with _operator():
            _tell(cluster)
            if not once:
                cluster.create(BAKERY)
                _step("Your turn, in another terminal; Ctrl-C here stops everything")
                _explain(f"export KUBECONFIG={cluster.kubeconfig}")
                _explain("kubectl get bakeries,events")
                patch = '{"spec": {"loaves": 50}}'
                _explain(f"kubectl patch bakery corner --type merge -p '{patch}'")
                _explain("kubectl delete bakery corner")
                _step(f"Or in a browser: {open_page(cluster)}")
                wait_for_signal()
    click.echo("stopped")


def _tell(cluster: sandbox) -> None:
    import yaml

    _step("Create a bakery: `open` fails at first, and is retried a second later")
    cluster.create(BAKERY)
    bakery = cluster.wait("bakeries", "corner", lambda obj: "open" in (obj.get("status") or {}))
    _explain("The result of `open` is in the status:")
    for line in yaml.safe_dump({key: bakery.get(key) for key in _SHOWN}).splitlines():
        _explain(f"  {line}")

    _step("Change it: `change` gets the difference to the last handled state")
    cluster.patch("bakeries", "corner", {"spec": {"loaves": 25}})
    cluster.wait(
        "bakeries", "corner", lambda obj: (obj.get("status") or {}).get("change") is not None
    )

    _step("Delete it: the finalizer keeps the object until `close` has succeeded")
    cluster.delete("bakeries", "corner")
    cluster.wait("bakeries", "corner")
    _explain("Now it is gone.")


@contextlib.contextmanager
def _operator() -> Iterator[None]:
    """Runs the operator in a thread with its own loop."""
    from kopf._front.bridge import running
    from kopf._front.declare import registries

    registry = registries.SmartOperatorRegistry()
    _declare(registry)
    ready, stop = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def target() -> None:
        try:
            asyncio.run(
                running.operator(
                    registry=registry,
                    clusterwide=True,
                    standalone=True,
                    ready_flag=ready,
                    stop_flag=stop,
                )
            )
        except BaseException as exc:
            failures.append(exc)
            ready.set()

    thread = threading.Thread(target=target, name="kopf-demo")
    thread.start()
    ready.wait()
    try:
        if not failures:
            yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def _declare(registry: Any) -> None:
    from kopf._front.objects.errors import TemporaryError

    from kopf import on

    @on.create("bakeries", registry=registry, id="open")
    async def open_bakery(spec: Any, retry: int, logger: Any, **_: Any) -> dict[str, Any]:
        if retry == 0:
            raise TemporaryError("The oven is cold.", delay=1)
        logger.info(f"Opening with {spec['loaves']} loaves of {spec['bread']} bread.")
        return {"oven": "hot"}

    @on.update("bakeries", registry=registry, id="change")
    async def change(diff: Any, logger: Any, **_: Any) -> str:
        for operation, field, old, new in diff:
            logger.info(f"{operation} of {'.'.join(field)}: {old!r} -> {new!r}")
        return "done"

    @on.delete("bakeries", registry=registry, id="close")
    async def close(logger: Any, **_: Any) -> None:
        logger.info("Closing.")


def _step(text: str) -> None:
    import click

    click.secho("=> ", fg="green", nl=False)
    click.secho(text, bold=True)


def _explain(text: str) -> None:
    import click

    click.echo(f"   {text}")
