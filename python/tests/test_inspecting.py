"""`kopf get`, `explain`, `retrigger`, `release` and `ui`: commands of the extension."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from kopf import cli, testing

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
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

RECORD = '{"retries":2,"delayed":"2099-01-02T03:04:05Z","message":"not ready"}'

THING = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {
        "name": "one",
        "namespace": "default",
        "annotations": {"kopf.zalando.org/create_fn": RECORD},
        "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"],
    },
    "spec": {"field": 1},
}


def kopf(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kopf", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def state() -> Any:
    done = kopf("get", "things", "one", "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["items"][0]


def test_objects_are_inspected_retriggered_and_released() -> None:
    with testing.sandbox(CRD, THING):
        assert state()["state"]["name"] == "retrying"
        done = kopf("explain", "thing", "one", "-n", "default")
        assert "create_fn: next attempt in" in done.stdout, done
        done = kopf("retrigger", "thing", "one")
        assert done.returncode == 0 and "handles it as a new object" in done.stdout, done
        assert state()["state"]["name"] == "handling"
        assert kopf("release", "things", "--all").returncode == 1
        assert kopf("release", "things", "--all", "-y").returncode == 0
        assert state()["finalizers"] == []


def on_terminal(answer: str, *arguments: str) -> tuple[int, str]:
    """Runs a command on a pseudo-terminal and confirms. Returns the exit code and the output."""
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "kopf", *arguments]
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, close_fds=True)
    os.close(inner)
    output = ""
    # On Linux, reading fails with EIO when the other side is closed.
    with contextlib.suppress(OSError), os.fdopen(outer, "rb+", buffering=0) as terminal:
        while chunk := terminal.read(1024):
            output += chunk.decode()
            if "[y/N]" in output and answer:
                terminal.write(f"{answer}\n".encode())
                answer = ""
    return process.wait(60), output


def test_release_is_confirmed_on_a_terminal() -> None:
    with testing.sandbox(CRD, THING) as cluster:
        for answer in ("n", "maybe", "\x04"):
            code, output = on_terminal(answer, "release", "things", "--all")
            assert code == 1 and "not confirmed" in output, output
        assert state()["finalizers"]
        cluster.delete("things", "one")
        code, output = on_terminal("y", "release", "things", "--all")
        assert code == 0, output
        assert "1 object will be deleted without deletion handlers." in output
        assert "thing default/one is released and deleted" in output
        cluster.wait("things", "one")


def test_running_operators_are_reported_before_a_release() -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    spec = {
        "holderIdentity": "op@host",
        "leaseDurationSeconds": 15,
        "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    metadata = {"name": "op", "namespace": "default", "labels": {"kopf.dev/role": "leader"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    foreign = {**metadata, "name": "other", "labels": {}}
    with testing.sandbox(CRD, THING, {**lease, "spec": spec}, {**lease, "metadata": foreign}):
        done = kopf("release", "things", "--all", "--dry-run")
        assert done.returncode == 0 and "thing default/one would be released" in done.stdout
        assert done.stderr.count("a running operator") == 1, done.stderr
        assert "op@host holds the Lease default/op" in done.stderr


def test_invalid_input_is_reported() -> None:
    with testing.sandbox(CRD):
        done = kopf("get", "absent")
        assert done.returncode == 1 and "has no resource" in done.stderr, done
        assert kopf("get", "things", "--absent").returncode == 2


@pytest.mark.parametrize("command", ["get", "explain", "retrigger", "release", "ui"])
def test_help_is_provided_by_the_extension(command: str) -> None:
    done = kopf(command, "--help")
    assert done.returncode == 0
    assert f"Usage: kopf {command} " in done.stdout
    listed = CliRunner().invoke(cli.main, ["--help"])
    assert f"\n  {command} " in listed.output
