"""The original and our package take turns on the same objects, in both directions.

Usage: swapping.py KUBECONFIG ORIGINAL OURS

ORIGINAL and OURS are Python interpreters with the packages `kopf` and `kopf-rs`. Each case starts
handling with one of them, stops it in the middle, and continues with the other one. Each check
prints "ok" or "FAILED"; the exit code is 1 if any has failed.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import kubernetes

PLURAL = "swapped"
GROUP = "e2e.kopf.dev"

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "swap", "kind": "Swap"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}

#: The first implementation runs with STAGE=1, the second one with STAGE=2.
OPERATORS = {
    "retries": """
        @kopf.on.create("swapped")
        def waiting(retry, patch, **_):
            if STAGE == 1:
                raise kopf.TemporaryError("Not in this stage.", delay=1)
            patch.status["retry"] = retry
            return {"stage": STAGE}

        @kopf.on.create("swapped")
        def done_at_once(logger, **_):
            logger.info("DONE AT ONCE")
            return {"stage": STAGE}
    """,
    "sub-handlers": """
        @kopf.on.create("swapped")
        def parent(**_):
            @kopf.subhandler(id="first")
            def first(logger, **_):
                logger.info("FIRST")
                return {"stage": STAGE}

            @kopf.subhandler(id="second")
            def second(**_):
                if STAGE == 1:
                    raise kopf.TemporaryError("Not in this stage.", delay=1)
                return {"stage": STAGE}
    """,
    "deletion": """
        @kopf.on.delete("swapped")
        def last_wish(patch, logger, **_):
            if STAGE == 1:
                raise kopf.TemporaryError("Not in this stage.", delay=1)
            logger.info("LAST WISH")

        @kopf.on.create("swapped")
        def created(**_):
            return {"stage": STAGE}
    """,
    "updates": """
        @kopf.on.create("swapped")
        def created(**_):
            return {"stage": STAGE}

        @kopf.on.update("swapped")
        def updated(diff, patch, **_):
            patch.status["diff"] = [[op, list(field), old, new] for op, field, old, new in diff]

        @kopf.on.resume("swapped")
        def resumed(**_):
            return {"stage": STAGE}
    """,
    "daemons": """
        @kopf.daemon("swapped")
        async def daemon(stopped, logger, **_):
            logger.info(f"DAEMON {STAGE}")
            await stopped.wait()
            logger.info(f"STOPPED {STAGE}")
    """,
}


class Case:
    """One operator on one object."""

    def __init__(self, api: Any, folder: pathlib.Path, namespace: str, name: str) -> None:
        self.api, self.folder, self.namespace, self.name = api, folder, namespace, name

    def create(self, spec: Any) -> None:
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Swap",
            "metadata": {"name": self.name},
            "spec": spec,
        }
        self.api.create_namespaced_custom_object(GROUP, "v1", self.namespace, PLURAL, body)

    def patch(self, patch: Any) -> None:
        self.api.patch_namespaced_custom_object(
            GROUP, "v1", self.namespace, PLURAL, self.name, patch
        )

    def delete(self) -> None:
        self.api.delete_namespaced_custom_object(GROUP, "v1", self.namespace, PLURAL, self.name)

    def get(self) -> Any:
        try:
            return self.api.get_namespaced_custom_object(
                GROUP, "v1", self.namespace, PLURAL, self.name
            )
        except kubernetes.client.ApiException as exc:
            if exc.status != 404:
                raise
            return None

    def wait(self, condition: Callable[[Any], Any]) -> Any:
        deadline = time.monotonic() + 30
        while not condition(body := self.get()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not in time: {body}")
            time.sleep(0.1)
        return body

    @contextlib.contextmanager
    def operator(self, python: str, code: str, stage: int) -> Iterator[Callable[[str], None]]:
        """Runs the operator, and yields a function that waits for a message of its log."""
        program = self.folder / f"{self.name}-{stage}.py"
        program.write_text(f"import kopf\nSTAGE = {stage}\n{textwrap.dedent(code)}")
        log = self.folder / f"{self.name}-{stage}.log"
        command = [python, "-m", "kopf", "run", "-n", self.namespace, "--standalone", "--verbose"]
        with log.open("w") as output:
            process = subprocess.Popen([*command, str(program)], stdout=output, stderr=output)

        def await_message(text: str) -> None:
            deadline = time.monotonic() + 30
            while text not in log.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise TimeoutError(f"no message {text!r} in: {log.read_text()[-3000:]}")
                time.sleep(0.1)

        try:
            yield await_message
            process.send_signal(signal.SIGTERM)
            if code_ := process.wait(timeout=30):
                raise RuntimeError(f"exit code {code_}: {log.read_text()[-3000:]}")
        finally:
            process.kill()
            process.wait()


def progress(body: Any, handler: str) -> bool:
    """Returns `True` if the progress of a handler is stored on the object."""
    annotations = body["metadata"].get("annotations") or {}
    return f"kopf.zalando.org/{handler}" in annotations


def handled(body: Any) -> bool:
    return "kopf.zalando.org/last-handled-configuration" in (
        body["metadata"].get("annotations") or {}
    )


def check_retries(case: Case, first: str, second: str) -> None:
    code = OPERATORS["retries"]
    with case.operator(first, code, 1):
        case.create({"x": 1})
        case.wait(
            lambda body: progress(body, "waiting") and "done_at_once" in body.get("status", {})
        )
        time.sleep(1.5)
    with case.operator(second, code, 2):
        body = case.wait(handled)
    assert body["status"]["waiting"] == {"stage": 2}, body
    assert body["status"]["done_at_once"] == {"stage": 1}, body
    assert body["status"]["retry"] >= 1, body
    assert not progress(body, "waiting"), body


def check_subhandlers(case: Case, first: str, second: str) -> None:
    code = OPERATORS["sub-handlers"]
    with case.operator(first, code, 1) as await_message:
        case.create({"x": 1})
        await_message("FIRST")
        case.wait(lambda body: progress(body, "parent.second"))
    with case.operator(second, code, 2):
        body = case.wait(handled)
    assert body["status"]["parent/first"] == {"stage": 1}, body
    assert body["status"]["parent/second"] == {"stage": 2}, body


def check_deletion(case: Case, first: str, second: str) -> None:
    code = OPERATORS["deletion"]
    with case.operator(first, code, 1):
        case.create({"x": 1})
        case.wait(handled)
        case.delete()
        case.wait(lambda body: progress(body, "last_wish"))
    with case.operator(second, code, 2) as await_message:
        await_message("LAST WISH")
        case.wait(lambda body: body is None)


def check_updates(case: Case, first: str, second: str) -> None:
    code = OPERATORS["updates"]
    with case.operator(first, code, 1):
        case.create({"x": 1})
        case.wait(handled)
    case.patch({"spec": {"x": 2}})
    with case.operator(second, code, 2):
        body = case.wait(lambda body: "diff" in body["status"] and "resumed" in body["status"])
        time.sleep(1)
    assert body["status"]["diff"] == [["change", ["spec", "x"], 1, 2]], body
    assert body["status"]["created"] == {"stage": 1}, body
    assert case.get()["status"]["created"] == {"stage": 1}, body


def check_daemons(case: Case, first: str, second: str) -> None:
    code = OPERATORS["daemons"]
    with case.operator(first, code, 1) as await_message:
        case.create({"x": 1})
        await_message("DAEMON 1")
        case.wait(lambda body: body["metadata"].get("finalizers"))
    with case.operator(second, code, 2) as await_message:
        await_message("DAEMON 2")
        case.delete()
        await_message("STOPPED 2")
        case.wait(lambda body: body is None)


CHECKS = {
    "retries": check_retries,
    "sub-handlers": check_subhandlers,
    "deletion": check_deletion,
    "updates": check_updates,
    "daemons": check_daemons,
}


def main(kubeconfig: str, original: str, ours: str) -> int:
    os.environ["KUBECONFIG"] = os.path.abspath(kubeconfig)
    kubernetes.config.load_kube_config(os.environ["KUBECONFIG"])
    namespace = f"e2e-swapping-{random.getrandbits(20):05x}"
    core = kubernetes.client.CoreV1Api()
    with contextlib.suppress(kubernetes.client.ApiException):
        kubernetes.client.ApiextensionsV1Api().create_custom_resource_definition(CRD)
    time.sleep(1)
    core.create_namespace({"metadata": {"name": namespace}})
    api = kubernetes.client.CustomObjectsApi()
    failed = 0
    try:
        with tempfile.TemporaryDirectory(prefix="kopf-swapping-") as folder:
            for name, check in CHECKS.items():
                for way, pair in (
                    ("theirs-ours", (original, ours)),
                    ("ours-theirs", (ours, original)),
                ):
                    case = Case(api, pathlib.Path(folder), namespace, f"{name}-{way}")
                    try:
                        check(case, *pair)
                        result = "ok"
                    except Exception as exc:
                        failed += 1
                        result = f"FAILED: {type(exc).__name__}: {exc}"
                    finally:
                        # The next operators must not see it.
                        with contextlib.suppress(kubernetes.client.ApiException):
                            case.patch({"metadata": {"finalizers": None}})
                            case.delete()
                    sys.stdout.write(f"{name}, {way}: {result}\n")
                    sys.stdout.flush()
    finally:
        core.delete_namespace(namespace)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: swapping.py KUBECONFIG ORIGINAL OURS")
    sys.exit(main(*sys.argv[1:]))
