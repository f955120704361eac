"""`kopf get`, `explain`, `retrigger`, `release`, `ui`: the commands of the native part."""

from __future__ import annotations

import json
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


def test_wrong_input_is_reported() -> None:
    with testing.sandbox(CRD):
        done = kopf("get", "absent")
        assert done.returncode == 1 and "has no resource" in done.stderr, done
        assert kopf("get", "things", "--absent").returncode == 2


@pytest.mark.parametrize("command", ["get", "explain", "retrigger", "release", "ui"])
def test_help_is_that_of_the_native_part(command: str) -> None:
    done = kopf(command, "--help")
    assert done.returncode == 0
    assert f"Usage: kopf {command} " in done.stdout
    listed = CliRunner().invoke(cli.main, ["--help"])
    assert f"\n  {command} " in listed.output
