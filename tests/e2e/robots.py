"""Operators that run as service accounts with given permissions, and counted verdicts.

Used by `rights.py` and `definitions.py`. `Robot` creates a namespace and a service account of the same
name; operators are processes with a kubeconfig of the account.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import yaml

from kopf.testing import ClusterClient, ClusterError

#: Seconds for each step of an operator. The machine can be busy with other operators.
PATIENCE = 60
#: Log messages of rejected requests, and of permissions that the review at the start misses.
REFUSED = re.compile(r"forbidden|not enough permissions|\b403\b", re.IGNORECASE)
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class CheckFailed(Exception):
    """The expectation that was not met."""


class Checks:
    """Counted verdicts of several threads."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0
        self.failed = 0
        self._lock = threading.Lock()

    def verdict(self, what: str, problem: str | None, log: str = "") -> None:
        """Prints "ok", or "FAILED" with the problem and the end of a log."""
        with self._lock:
            self.passed, self.failed = self.passed + (not problem), self.failed + bool(problem)
            print(f"FAILED  {what}: {problem}\n{log}" if problem else f"ok      {what}", flush=True)

    def summary(self) -> int:
        """Prints the counts, and returns the exit code."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


class Robot:
    """A service account in a namespace of its own, and the operator that runs as it."""

    def __init__(self, kubeconfig: str, name: str) -> None:
        super().__init__()
        self.name = name
        self.admin = ClusterClient(kubeconfig)
        self._folder = tempfile.TemporaryDirectory(prefix="kopf-robot-")
        self._log = pathlib.Path(self._folder.name, "log")
        self._log.touch()
        self._kubeconfig = pathlib.Path(self._folder.name, "kubeconfig")
        self._cluster = yaml.safe_load(pathlib.Path(kubeconfig).read_text())["clusters"][0]
        self._process: subprocess.Popen[bytes] | None = None
        self._roles: list[str] = []
        self.admin.request(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        )
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.admin.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
        self._login()

    def _login(self) -> None:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{self.name}/serviceaccounts/{self.name}/token"
        token = self.admin.request("POST", path, request)["status"]["token"]
        context = {"cluster": self._cluster["name"], "user": "robot", "namespace": self.name}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [self._cluster],
            "users": [{"name": "robot", "user": {"token": token}}],
            "contexts": [{"name": "robot", "context": context}],
            "current-context": "robot",
        }
        self._kubeconfig.write_text(yaml.safe_dump(config))

    # Permissions.

    def permit(self, documents: str) -> None:
        """Creates roles and bindings, and waits until the server respects them."""
        rules: list[tuple[str | None, dict[str, Any]]] = []
        for manifest in yaml.safe_load_all(documents):
            if manifest is None or manifest["kind"] == "ServiceAccount":
                continue
            path = self._path_of_role(manifest)
            self.admin.request("POST", path, manifest)
            self._roles.append(f"{path}/{urllib.parse.quote(manifest['metadata']['name'])}")
            if manifest["kind"] in ("Role", "ClusterRole"):
                namespace = manifest["metadata"].get("namespace")
                rules += [(namespace, rule) for rule in manifest["rules"]]
        client = ClusterClient(self._kubeconfig)
        for namespace, rule in rules:
            until(f"{rule} is in force", lambda: _is_permitted(client, namespace, rule))
        client.close()

    def _path_of_role(self, manifest: Any) -> str:
        plural = f"{manifest['kind'].lower()}s"
        namespace = manifest["metadata"].get("namespace")
        return f"{RBAC}/namespaces/{namespace}/{plural}" if namespace else f"{RBAC}/{plural}"

    def withdraw(self) -> None:
        """Deletes all roles and bindings of the account."""
        while self._roles:
            with contextlib.suppress(ClusterError):
                self.admin.request("DELETE", self._roles.pop())

    # The operator.

    def start(self, command: Sequence[str], environment: Iterable[tuple[str, str]] = ()) -> None:
        """Starts an operator as the service account. Its log is truncated."""
        env = {**os.environ, **dict(environment), "KUBECONFIG": str(self._kubeconfig)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=env, cwd=self._folder.name
            )

    def stop(self) -> None:
        """Ends the operator by SIGTERM; it must end well."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self.wait(expected=0)

    def wait(self, *, expected: int) -> None:
        """Waits for the end of the operator with this exit code."""
        assert self._process is not None
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise CheckFailed("the operator does not end") from None
        if code != expected:
            raise CheckFailed(f"the exit code of the operator is {code} instead of {expected}")

    def log(self) -> str:
        """Returns the log of the operator."""
        return self._log.read_text(errors="replace")

    def end_of_log(self) -> str:
        """Returns the last lines of the log, as a quotation."""
        lines = self.log().splitlines()[-15:]
        return "\n".join(f"        | {line[:240]}" for line in lines)

    def refusals(self) -> list[str]:
        """Returns the log messages of rejected requests and missing permissions."""
        return [line for line in self.log().splitlines() if REFUSED.search(line)]

    def until(self, what: str, condition: Callable[[], object]) -> None:
        """Waits for a condition while the operator runs."""

        def holds() -> object:
            if self._process is not None and self._process.poll() is not None:
                return condition() or _fail(
                    f"the operator has ended with {self._process.returncode}, and not: {what}"
                )
            return condition()

        until(what, holds)

    # Objects.

    def get(self, path: str) -> Any:
        """Returns an object; `None` if it does not exist."""
        try:
            return self.admin.request("GET", path)
        except ClusterError as exc:
            if exc.status != 404:
                raise
            return None

    def merge(self, path: str, patch: Any) -> Any:
        """Sends a merge-patch."""
        kind = "application/merge-patch+json"
        return self.admin.request("PATCH", path, patch, content_type=kind)

    def close(self) -> None:
        """Ends and deletes everything. The server deletes the namespace later."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.withdraw()
        with contextlib.suppress(ClusterError):
            self.admin.request("DELETE", f"/api/v1/namespaces/{self.name}")
        self.admin.close()
        self._folder.cleanup()


@contextlib.contextmanager
def robot(kubeconfig: str, name: str, checks: Checks) -> Iterator[Robot]:
    """Yields a service account. Failures in the block are verdicts."""
    account = Robot(kubeconfig, name)
    try:
        yield account
    except (CheckFailed, ClusterError, subprocess.CalledProcessError) as exc:
        output = getattr(exc, "stderr", None) or ""
        checks.verdict(name, f"{exc} {output}".strip(), account.end_of_log())
    finally:
        account.close()


def until(what: str, condition: Callable[[], object]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise CheckFailed(f"not in {PATIENCE} seconds: {what}")
        time.sleep(0.2)


def _fail(problem: str) -> object:
    raise CheckFailed(problem)


def _is_permitted(client: ClusterClient, namespace: str | None, rule: Any) -> bool:
    resource, _, subresource = rule["resources"][0].partition("/")
    attributes = {
        "namespace": namespace or "",
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": rule.get("resourceNames", [""])[0],
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(client.request("POST", path, review)["status"]["allowed"])
