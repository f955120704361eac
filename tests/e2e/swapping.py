#!/usr/bin/env python3
"""Replaces the original by this package, and the other way round, in the middle of handling.

Usage: swapping.py KUBECONFIG OURS ORIGINAL
  OURS, ORIGINAL: Python interpreters with kopf-rs and with the original kopf.

One operator (`swapping_operator.py`) serves objects in several states of handling: retries of a
creation, sub-handlers, an update, a reconcile handler, a deletion, daemons. It is ended by SIGTERM or SIGKILL, the other
implementation continues, and in the end the first one again. What is recorded as finished must not
be repeated, nothing may be lost, and nothing may be left on the objects.
Each check prints "ok" or "FAILED"; the last line counts them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import yaml

import kopf
from kopf.testing import ClusterClient, ClusterError

HERE = pathlib.Path(__file__).parent
KIND = "kopfexamples.kopf.dev"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
LAST = "kopf.zalando.org/last-handled-configuration"
#: Written by this package only. The original neither reads nor removes it.
OURS_ONLY = "kopf.zalando.org/attempted-essences"
#: The record of the reconcile handler, which the original does not have.
SYNC = "kopf.zalando.org/sync"
#: Objects and their cases.
OBJECTS = {
    "retries": "retries",
    "subhandlers": "subhandlers",
    "update": "update",
    "downtime": "downtime",
    "reconcile": "reconcile",
    "deletion": "deletion",
    "daemon": "daemon",
    "daemon-deleted-meanwhile": "daemon",
}


class Run:
    """One direction with one signal."""

    def __init__(self, client: ClusterClient, pythons: dict[str, str], namespace: str) -> None:
        super().__init__()
        self.client = client
        self.namespace = namespace
        self._pythons = pythons
        self._folder = tempfile.TemporaryDirectory(prefix="kopf-swapping-")
        self.folder = pathlib.Path(self._folder.name)
        self.calls_file = self.folder / "calls"
        self.calls_file.touch()
        self._process: subprocess.Popen[bytes] | None = None

    # Operators.

    def start(self, who: str, kubeconfig: str) -> None:
        """Starts an operator."""
        env = {**os.environ, "KUBECONFIG": kubeconfig}
        env.pop("PYTHONPATH", None)
        if who == "ours":
            # The same package as in this process, regardless of installed packages and the working folder.
            env["PYTHONPATH"] = str(pathlib.Path(kopf.__file__).parents[1])
        env |= {"SWAPPING_FOLDER": str(self.folder), "SWAPPING_WHO": who}
        program = str(HERE / "swapping_operator.py")
        options = ["run", "-n", self.namespace, "--standalone", "--verbose", program]
        with self.folder.joinpath(f"{who}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._pythons[who], "-m", "kopf", *options],
                stdout=log,
                stderr=log,
                env=env,
                cwd=self.folder,
            )

    def end(self, how: signal.Signals) -> None:
        """Ends the operator; it must be alive."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the operator has ended with {self._process.returncode}")
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        finally:
            self._process.kill()

    def close(self) -> None:
        """Ends the operators and removes the objects."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for body in self.client.all(KIND, namespace=self.namespace):
            name = body["metadata"]["name"]
            with contextlib.suppress(ClusterError):
                self.merge(name, {"metadata": {"finalizers": None}})
                self.client.delete(KIND, name, namespace=self.namespace)
        self.client.delete("namespaces", self.namespace, namespace=None)
        self._folder.cleanup()

    # Objects.

    def create(self, name: str, case: str) -> None:
        metadata = {"name": name, "labels": {"case": case}}
        manifest = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata}
        self.client.create({**manifest, "spec": {"field": "a"}}, namespace=self.namespace)

    def get(self, name: str) -> Any:
        return self.client._find(KIND, name, self.namespace)

    def merge(self, name: str, patch: Any) -> None:
        self.client.patch(KIND, name, patch, namespace=self.namespace)

    def delete(self, name: str) -> None:
        self.client.delete(KIND, name, namespace=self.namespace)

    def annotations(self, name: str) -> dict[str, str]:
        """Returns the annotations of operators."""
        body = self.get(name) or {"metadata": {}}
        found = body["metadata"].get("annotations") or {}
        return {key: value for key, value in found.items() if "kopf.zalando.org/" in key}

    def record(self, name: str, handler: str) -> dict[str, Any]:
        """Returns the progress record of a handler; empty if there is none."""
        key = f"kopf.zalando.org/{handler.replace('/', '.')}"
        found: dict[str, Any] = json.loads(self.annotations(name).get(key, "{}"))
        return found

    def is_handled(self, name: str) -> bool:
        """Returns `True` if the last-handled spec is the current one."""
        body = self.get(name)
        last = self.annotations(name).get(LAST)
        return last is not None and json.loads(last)["spec"] == body["spec"]

    def calls(self, name: str, handler: str, who: str | None = None) -> list[dict[str, Any]]:
        """Returns the noted calls of a handler."""
        records = [json.loads(line) for line in self.calls_file.read_text().splitlines()]
        return [
            record
            for record in records
            if (record["object"], record["handler"]) == (name, handler)
            and who in (None, record["who"])
        ]

    def until(self, what: str, condition: Callable[[], Any], timeout: float = 30) -> None:
        """Waits for a condition."""
        deadline = time.monotonic() + timeout
        while not condition():
            if self._process is not None and self._process.poll() not in (None, 0, -9, -15):
                raise AssertionError(f"the operator has ended with {self._process.returncode}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {timeout} seconds: {what}")
            time.sleep(0.1)

    def end_of_logs(self) -> str:
        """Returns the last lines of the logs, and all calls."""
        files = [*sorted(self.folder.glob("*.log")), self.calls_file]
        lines = [line for file in files for line in file.read_text().splitlines()[-40:]]
        return "\n".join(f"        | {line[:240]}" for line in lines)


class Checks:
    """Counted verdicts."""

    passed = 0
    failed = 0

    def verdict(self, what: str, is_right: bool, explanation: Any = "") -> None:
        self.passed, self.failed = self.passed + is_right, self.failed + (not is_right)
        print("ok     " if is_right else "FAILED ", what, "" if is_right else f": {explanation}")
        sys.stdout.flush()


def is_steady(calls: list[dict[str, Any]], how: signal.Signals) -> bool:
    """Returns `True` if the count of attempts continues.

    A killed operator can lose the record of its last attempt: it is repeated by the other one.
    """
    retries = [call["retry"] for call in calls]
    steps = [new - old for old, new in zip(retries, retries[1:])]
    repeated = steps.count(0) if how is signal.SIGKILL else 0
    return retries[:1] == [0] and set(steps) <= {0, 1} and steps.count(0) == repeated <= 1


def prepare(run: Run, who: str) -> None:
    """Brings all objects into the middle of handling."""
    for name, case in OBJECTS.items():
        run.create(name, case)
    for name in ("update", "downtime", "reconcile"):
        run.until(f"{name} is created", lambda: run.is_handled(name))
    for name in ("deletion", "daemon", "daemon-deleted-meanwhile"):
        run.until(f"{name} has a finalizer", lambda: run.get(name)["metadata"].get("finalizers"))
    run.merge("update", {"spec": {"field": "b"}})
    run.delete("deletion")
    for name, done, waiting in (
        ("retries", "first", "second"),
        ("subhandlers", "parent/a", "parent/b"),
        ("subhandlers", "parent/c", "parent/b"),
        ("update", "one", "two"),
        ("deletion", "clean", "wipe"),
    ):
        run.until(f"{name}: {done} is done", lambda: run.record(name, done).get("success"))
        run.until(f"{name}: {waiting} waits", lambda: run.record(name, waiting).get("retries", 0))
    if who == "ours":
        run.until("sync is retried", lambda: run.record("reconcile", "sync").get("retries", 0))
    for name in ("daemon", "daemon-deleted-meanwhile"):
        run.until(f"{name} runs", lambda: run.calls(name, "guard"))


def complete(run: Run, who: str) -> None:
    """Lets the second operator finish everything."""
    for name, waiting in (
        ("retries", "second"),
        ("subhandlers", "parent/b"),
        ("update", "two"),
        ("deletion", "wipe"),
        ("daemon", "guard"),
    ):
        run.until(f"{name}: {waiting} is continued", lambda: run.calls(name, waiting, who))
    if who == "ours":
        run.until("sync is retried", lambda: run.calls("reconcile", "sync", who)[1:])
    run.merge("reconcile", {"spec": {"field": "b"}})
    run.until("reconcile is changed", lambda: run.calls("reconcile", "restamped", who))
    run.folder.joinpath("go").touch()
    for name in ("retries", "subhandlers", "update", "downtime", "reconcile"):
        run.until(f"{name} is handled", lambda: run.is_handled(name))
    for name in ("deletion", "daemon-deleted-meanwhile"):
        run.until(f"{name} is gone", lambda: run.get(name) is None)


def check(run: Run, checks: Checks, prefix: str, second: str, how: signal.Signals) -> None:
    """Compares with the result of one operator alone."""

    def verdict(what: str, is_right: bool, explanation: Any = "") -> None:
        checks.verdict(f"{prefix}: {what}", is_right, explanation)

    for name, handler in (
        ("retries", "first"),
        ("subhandlers", "parent/a"),
        ("subhandlers", "parent/c"),
        ("update", "made"),
        ("update", "one"),
        ("reconcile", "stamped"),
        ("reconcile", "restamped"),
        ("deletion", "clean"),
    ):
        calls = run.calls(name, handler)
        verdict(f"{handler} of {name} is called once", len(calls) == 1, calls)
    for name, handler in (
        ("retries", "second"),
        ("subhandlers", "parent/b"),
        ("update", "two"),
        ("deletion", "wipe"),
    ):
        calls = run.calls(name, handler)
        verdict(f"retries of {handler} are continued", is_steady(calls, how), calls)
    calls = run.calls("reconcile", "sync")
    verdict("retries of sync are continued", is_steady(calls, how), calls)
    left = run.annotations("reconcile")
    verdict("the original ignores the record of sync", (SYNC in left) == (second == "original"), left)
    verdict("no update is invented", not run.calls("retries", "never"), run.calls("retries", "never"))
    expected = [["change", ["spec", "field"], "a", "b"]]
    diffs = [call["diff"] for call in run.calls("update", "one") + run.calls("update", "two")]
    verdict("all see the same diff", all(diff == expected for diff in diffs), diffs)
    diffs = [call["diff"] for call in run.calls("downtime", "changed")]
    verdict("the change of the downtime is seen once", diffs == [expected], diffs)
    verdict("resuming is done", len(run.calls("downtime", "up", second)) == 1)
    verdict("the daemon is continued", len(run.calls("daemon", "guard", second)) == 1)
    late = run.calls("daemon-deleted-meanwhile", "guard", second)
    verdict("no daemon is started for a deleted object", not late, late)
    results = {
        "retries": {"first": "first", "second": "second"},
        "subhandlers": {"parent/a": "a", "parent/b": "b", "parent/c": "c", "parent": "parent"},
        "update": {"one": "one", "two": "two"},
    }
    for name, expected_status in results.items():
        status = run.get(name).get("status")
        verdict(f"the results of {name} are stored", status == expected_status, status)
    # The original ignores our annotation, so it is left if the original finishes.
    accepted = {LAST, OURS_ONLY} if second == "original" else {LAST}
    for name in ("retries", "subhandlers", "update", "downtime"):
        left = set(run.annotations(name)) - accepted
        verdict(f"no annotations are left on {name}", not left, left)
        finalizers = run.get(name)["metadata"].get("finalizers")
        verdict(f"no finalizers are left on {name}", not finalizers, finalizers)


def check_return(run: Run, checks: Checks, prefix: str, first: str, calls: int) -> None:
    """Checks that the first operator finds nothing to do, except for daemons and resuming."""
    run.until("the daemon runs again", lambda: len(run.calls("daemon", "guard", first)) == 2)
    run.until("it resumes again", lambda: run.calls("downtime", "up", first)[1:])
    # Superfluous handling would follow immediately.
    time.sleep(1)
    new = run.calls_file.read_text().splitlines()[calls:]
    handlers = {json.loads(line)["handler"] for line in new}
    checks.verdict(
        f"{prefix}: the first one finds nothing to do",
        handlers <= {"up", "guard", "guard-stopped", "sync"},
        new,
    )
    if first == "ours":
        run.until("sync is done", lambda: SYNC not in run.annotations("reconcile"))
        calls = run.calls("reconcile", "sync", first)
        # The attempts continue where the other operator has found them.
        checks.verdict(
            f"{prefix}: the retries of sync are continued",
            calls[-1]["triggers"] == ["resumed", "retried"] and calls[-1]["retry"] == len(calls) - 1,
            calls,
        )
    # Its next write removes the annotations that the other one ignores.
    run.merge("update", {"spec": {"field": "c"}})
    run.until("the next update is handled", lambda: run.is_handled("update"))
    left = set(run.annotations("update")) - {LAST}
    checks.verdict(f"{prefix}: no annotations are left after the next update", not left, left)
    again = [*run.calls("update", "one", first), *run.calls("update", "two", first)]
    again = [call for call in again if call["diff"] == [["change", ["spec", "field"], "b", "c"]]]
    checks.verdict(f"{prefix}: the next update is handled once", len(again) == 2, again)
    for name in ("retries", "subhandlers", "update", "downtime", "reconcile", "daemon"):
        run.delete(name)
    for name in ("retries", "subhandlers", "update", "downtime", "reconcile", "daemon"):
        run.until(f"{name} is gone", lambda: run.get(name) is None)
    checks.verdict(f"{prefix}: everything is gone", True)


def swap(run: Run, checks: Checks, kubeconfig: str, first: str, how: signal.Signals) -> None:
    """Runs one direction with one signal."""
    second = {"ours": "original", "original": "ours"}[first]
    prefix = f"{first} to {second} by {how.name}"
    try:
        run.start(first, kubeconfig)
        prepare(run, first)
        run.end(how)
        run.merge("downtime", {"spec": {"field": "b"}})
        run.delete("daemon-deleted-meanwhile")
        run.start(second, kubeconfig)
        complete(run, second)
        time.sleep(1)
        check(run, checks, prefix, second, how)
        run.end(how)
        calls = len(run.calls_file.read_text().splitlines())
        run.start(first, kubeconfig)
        check_return(run, checks, prefix, first, calls)
        run.end(signal.SIGTERM)
    except (AssertionError, ClusterError) as exc:
        checks.verdict(f"{prefix}: {exc}", False, f"see\n{run.end_of_logs()}")


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    kubeconfig = os.path.realpath(sys.argv[1])
    pythons = {"ours": sys.argv[2], "original": sys.argv[3]}
    client = ClusterClient(kubeconfig)
    crd = yaml.safe_load((HERE.parents[1] / "examples" / "crd.yaml").read_text())
    with contextlib.suppress(ClusterError):
        client.create(crd)
    checks = Checks()
    for first in pythons:
        for how in (signal.SIGTERM, signal.SIGKILL):
            namespace = f"e2e-swapping-{first}-{how.name.lower()}-{os.getpid()}"
            client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
            run = Run(client, pythons, namespace)
            try:
                swap(run, checks, kubeconfig, first, how)
            finally:
                run.close()
    client.close()
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
