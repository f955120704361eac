"""Replay of a recording: its operator runs as a process on a cluster, through a recording proxy."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import golden_likeness as likeness
from golden_proxy import Call, RecordingProxy

import kopf
from kopf.testing import ClusterClient, ClusterError

ROOT = pathlib.Path(__file__).parents[2]
RECORDINGS = ROOT / "tests" / "golden"
PEERING = ROOT / "crates" / "kopf-shipping" / "manifests" / "peering.yaml"
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.golden.example"},
    "spec": {
        "group": "golden.example",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _OPEN, "status": _OPEN},
                    }
                },
            }
        ],
    },
}


def until(what: str, condition: Callable[[], Any], timeout: float = 30) -> Any:
    """Waits until the condition is true, and returns its value."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"timeout after {timeout} seconds: {what}")
        time.sleep(0.03)
    return value


class Operator:
    """A process of `python -m kopf`; its log is collected in a file."""

    def __init__(self, log: pathlib.Path, kubeconfig: pathlib.Path, *args: str) -> None:
        super().__init__()
        self.log = log
        # The same package as in this process, regardless of installed packages and the folder.
        package = str(pathlib.Path(kopf.__file__).parents[1])
        env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": package}
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kopf", *args],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=log.parent,
            )

    def has_logged(self, text: str, times: int = 1) -> bool:
        """Returns `True` if the log contains the text `times` times or more. Fails after an exit."""
        content = self.log.read_text()
        if self._process.poll() is not None:
            raise AssertionError(f"the operator has exited:\n{content}")
        return content.count(text) >= times

    def stop(self) -> None:
        """Stops the process like a cluster does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise
        assert self._process.wait() == 0, self.log.read_text()

    def join(self) -> None:
        """Waits until a command exits."""
        assert self._process.wait(30) == 0, self.log.read_text()

    def kill(self) -> None:
        """Kills the process."""
        self._process.kill()
        self._process.wait()


class Stage:
    """One recording with a namespace for its replay."""

    def __init__(
        self, recording: str, cluster: ClusterClient, proxy: RecordingProxy, folder: pathlib.Path
    ) -> None:
        super().__init__()
        self.recording = RECORDINGS / recording
        self.namespace = f"g-{recording.partition('-')[0]}"
        self.cluster = cluster
        self._proxy = proxy
        self._first = len(proxy.calls)
        self._first_body = len(proxy.bodies)
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(proxy.kubeconfig))
        self._operators: list[Operator] = []
        self.moments = json.loads((self.recording / "objects.json").read_text())
        with contextlib.suppress(ClusterError):
            cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
            )

    def start(self, *args: str, log: str = "log.txt") -> Operator:
        """Starts the recorded operator."""
        program = str(self.recording / "operator.py")
        path = self.folder / log
        path.touch()
        command = ["run", "-n", self.namespace, "--verbose", *args, program]
        operator = Operator(path, self.kubeconfig, *command)
        self._operators.append(operator)
        return operator

    def run(self, *args: str, log: str = "log.txt") -> Operator:
        """Starts the recorded operator, and waits until it watches the objects."""
        words = "Starting the watch-stream for things.v1.golden.example"
        path = self.folder / log
        times = path.read_text().count(words) if path.exists() else 0
        operator = self.start(*args, log=log)
        until("the operator watches", lambda: operator.has_logged(words, times + 1))
        return operator

    def close(self) -> None:
        """Kills the operators and deletes the remaining objects."""
        for operator in self._operators:
            operator.kill()
        for resource in ("things.golden.example", "kopfpeerings.kopf.dev"):
            for body in self.cluster.all(resource, namespace=self.namespace):
                name = body["metadata"]["name"]
                with contextlib.suppress(ClusterError):
                    patch = {"metadata": {"finalizers": None}}
                    self.cluster.patch(resource, name, patch, namespace=self.namespace)
                    self.cluster.delete(resource, name, namespace=self.namespace)

    def create(self, name: str = "obj", *, labels: Any = None, spec: Any = None) -> None:
        """Creates an object; by default, that of most recordings."""
        metadata = {"name": name, **({"labels": labels} if labels else {})}
        spec = spec or {"field": "value", "items": ["a", "b"]}
        manifest = {"apiVersion": "golden.example/v1", "kind": "Thing", "metadata": metadata}
        self.cluster.create({**manifest, "spec": spec}, namespace=self.namespace)

    def merge(self, patch: Any, subresource: str | None = None) -> None:
        """Changes the object by a merge patch."""
        self.cluster.patch(
            "things.golden.example", "obj", patch, namespace=self.namespace, subresource=subresource
        )

    def delete(self) -> None:
        """Deletes the object and waits for its deletion."""
        self.cluster.delete("things.golden.example", "obj", namespace=self.namespace)
        self.cluster.wait("things.golden.example", "obj", namespace=self.namespace)

    def moment(self, step: str, key: str = "object") -> Any:
        """Returns the recorded value after a step."""
        return next(m[key] for m in self.moments if m["after"] == step and key in m)

    def reaches(self, step: str) -> None:
        """Waits until the object is, or temporarily was, in the recorded state after this step."""
        recorded = self.moment(step)
        name = recorded["metadata"]["name"]
        expected = likeness.of_object(recorded)
        last: Any = None

        def is_reached() -> bool:
            nonlocal last
            seen = [body for body in self._proxy.bodies[self._first_body :] if self._is(body, name)]
            found = self.cluster._find("things.golden.example", name, self.namespace)
            last = likeness.of_object(found)
            return any(likeness.of_object(body) == expected for body in [*seen, found])

        try:
            until(step, is_reached)
        except TimeoutError:
            assert last == expected, f"the object differs from the recording after {step!r}"

    def _is(self, body: Any, name: str) -> bool:
        metadata = body.get("metadata") or {}
        return (metadata.get("namespace"), metadata.get("name")) == (self.namespace, name)

    def calls(self) -> list[Call]:
        """Returns the writes of this replay."""
        return [
            call
            for call in self._proxy.calls[self._first :]
            if call.namespace in (self.namespace, None)
        ]

    def writes(self) -> list[likeness.Write]:
        """Returns the comparable writes of this replay."""
        written = (
            likeness.of_write(c.resource, c.name, c.subresource, c.status, c.body)
            for c in self.calls()
        )
        return [write for write in written if write is not None]

    def recorded_writes(self) -> list[likeness.Write]:
        """Returns the comparable writes of the recording."""
        calls = json.loads((self.recording / "calls.json").read_text())
        written = (
            likeness.of_write(
                c["resource"], c.get("name", ""), c.get("subresource", ""), c["status"], c["body"]
            )
            for c in calls
        )
        return [write for write in written if write is not None]

    def settle(self) -> None:
        """Waits for a time without writes, so that superfluous ones are detected."""
        before = -1
        while before != len(self.calls()):
            before = len(self.calls())
            time.sleep(0.3)

    def lines(self, log: str = "log.txt") -> list[likeness.Line]:
        """Returns the log of this replay."""
        return likeness.parsed((self.folder / log).read_text())

    def recorded_lines(self, log: str = "log.txt") -> list[likeness.Line]:
        """Returns the log of the recording."""
        return likeness.parsed((self.recording / log).read_text())

    def compare(self, *names: str, log: str | None = "log.txt") -> None:
        """Compares the writes and, unless `log` is `None`, the main log lines of these objects."""
        until("as many writes as recorded", lambda: self._enough(names), timeout=10)
        self.settle()
        for name in names:
            ours = [write for write in self.writes() if write.object == name]
            theirs = [write for write in self.recorded_writes() if write.object == name]
            assert ours == theirs, f"the writes to {name!r} differ"
            if name != "events" and log is not None:
                lines = likeness.main_lines(self.lines(log), name)
                assert lines == likeness.main_lines(self.recorded_lines(log), name)
        if "events" not in names and log is not None:
            self._check_events()

    def _enough(self, names: tuple[str, ...]) -> bool:
        ours, theirs = self.writes(), self.recorded_writes()
        return all(
            sum(write.object == name for write in ours)
            >= sum(write.object == name for write in theirs)
            for name in names
        )

    def _check_events(self) -> None:
        """Checks that only log records are posted, which the original does not do by default."""
        logged = {line.text for line in self.lines()}
        for write in self.writes():
            if write.object == "events":
                assert write.body["reason"] == "Logging"
                assert write.body["message"] in logged


@contextlib.contextmanager
def staged(
    recording: str, cluster: ClusterClient, proxy: RecordingProxy, folder: pathlib.Path
) -> Iterator[Stage]:
    """Prepares a replay, and stops its operators at the end."""
    stage = Stage(recording, cluster, proxy, folder)
    try:
        yield stage
    finally:
        stage.close()
