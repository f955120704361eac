"""`kopf rbac`, `kopf manifests` and `kopf new`."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import kopf
from kopf import _kopf, cli

HANDLERS = """
import dataclasses
import kopf

@kopf.crd("g.dev", "v1", "things")
@dataclasses.dataclass
class Thing:
    x: int = 0

@kopf.on.create("things")
def create(**_): ...

@kopf.on.event(lambda resource: resource.kind == "Node")
def seen(**_): ...
"""


@pytest.fixture
def handlers(tmp_path: pathlib.Path, registry: kopf.OperatorRegistry) -> str:
    path = tmp_path / "my_handlers.py"
    path.write_text(HANDLERS)
    return str(path)


def invoke(*args: str) -> Result:
    return CliRunner().invoke(cli.main, args)


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def find(kind: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    (one,) = (item for item in found if item["kind"] == kind)
    return one


def test_roles_are_derived_from_handlers_and_models(handlers: str) -> None:
    result = invoke("rbac", "--standalone", "--allow", "create:pods", handlers)
    rules = find("ClusterRole", objects(result))["rules"]
    verbs = {
        (group, resource): rule["verbs"]
        for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]
    }
    assert verbs == {
        ("", "events"): ["create"],
        ("", "pods"): ["create"],
        ("", "nodes"): ["list", "watch"],
        ("apiextensions.k8s.io", "customresourcedefinitions"): ["list", "watch"],
        ("g.dev", "things"): ["list", "patch", "watch"],
        # Children of the allowed kind block the deletion of their owners.
        ("g.dev", "things/finalizers"): ["update"],
        ("g.dev", "things/status"): ["patch"],
    }
    assert "evaluated for built-in resources" in result.stderr


def test_manifests_are_named_after_the_file(handlers: str) -> None:
    found = objects(invoke("manifests", "--serve", "a", handlers))
    deployment = find("Deployment", found)
    assert deployment["metadata"]["name"] == "my-handlers"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "my-handlers:latest"
    assert container["command"] == ["kopf"]
    assert container["args"] == [
        "run", "--namespace=a", "--liveness=http://0.0.0.0:8080/healthz", handlers,
    ]
    definitions = [item for item in found if item["kind"] == "CustomResourceDefinition"]
    assert "things.g.dev" in {item["metadata"]["name"] for item in definitions}
    # Events of cluster-scoped objects are in the default namespace.
    roles = [item for item in found if item["kind"] == "Role"]
    assert {item["metadata"]["namespace"] for item in roles} == {"a", "default"}


def test_pods_know_the_service_of_their_webhooks(
    tmp_path: pathlib.Path, registry: kopf.OperatorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hooked.py"
    path.write_text("import kopf\n\n@kopf.on.validate('pods')\ndef check(**_): ...\n")
    found = objects(invoke("manifests", "--name", "op", "--namespace", "ops", str(path)))
    (container,) = find("Deployment", found)["spec"]["template"]["spec"]["containers"]
    (value,) = (item["value"] for item in container["env"] if item["name"] == "KOPF_WEBHOOK_SERVICE")
    # What a server in such a pod announces, and where it listens.
    monkeypatch.setenv("KOPF_WEBHOOK_SERVICE", value)
    announced = _kopf.announced_webhook_service(kopf.WebhookAutoServer()._options(), None, False)
    assert announced is not None
    reference, names, listened = announced
    service = find("Service", found)
    (port,) = service["spec"]["ports"]
    assert reference == {
        "namespace": service["metadata"]["namespace"],
        "name": service["metadata"]["name"],
        "port": port["port"],
    }
    assert f"{reference['name']}.{reference['namespace']}.svc" in names
    targets = {item["name"]: item["containerPort"] for item in container["ports"]}
    assert targets[port["targetPort"]] == listened


def test_chart_is_written_into_a_new_folder(handlers: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "chart"
    result = invoke("manifests", "--name", "op", "--helm", str(folder), handlers)
    assert result.exit_code == 0, result.output
    assert yaml.safe_load((folder / "Chart.yaml").read_text())["name"] == "op"
    assert (folder / "templates" / "deployment.yaml").exists()
    result = invoke("manifests", "--name", "op", "--helm", str(folder), handlers)
    assert result.exit_code == 1
    assert "exists and is not empty" in result.stderr


@pytest.mark.parametrize(("args", "message"), [
    (["--name", "My"], "invalid name"),
    (["--namespace", "-"], "invalid namespace"),
    (["--allow", "read:pods"], "unknown verb"),
    (["--serve", ""], "empty part"),
    (["-f", "absent.yaml"], "No such file"),
])
def test_invalid_options_are_reported(handlers: str, args: list[str], message: str) -> None:
    result = invoke("rbac", *args, handlers)
    assert result.exit_code == 1
    assert message in result.stderr


def test_new_projects_never_overwrite_files(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "op"
    assert invoke("new", "my-op", "--path", str(folder)).exit_code == 0
    assert "GreetingSpec" in (folder / "handlers.py").read_text()
    again = invoke("new", "my-op", "--path", str(folder))
    assert again.exit_code == 1 and "exists and is not empty" in again.stderr
    wrong = invoke("new", "lambda", "--path", str(tmp_path / "other"))
    assert wrong.exit_code == 1 and "reserved in Python" in wrong.stderr
    assert not (tmp_path / "other").exists()


def test_new_projects_use_a_given_wheel(tmp_path: pathlib.Path) -> None:
    wheel = tmp_path / "kopf_rs-0.1.0-cp311-abi3-linux_x86_64.whl"
    wheel.write_bytes(b"PK")
    folder = tmp_path / "op"
    made = invoke("new", "my-op", "--path", str(folder), "--kopf-path", str(wheel))
    assert made.exit_code == 0 and "of the wheel in wheels/" in made.stdout
    assert (folder / "wheels" / wheel.name).read_bytes() == b"PK"
    assert (folder / "requirements.txt").read_text() == f"./wheels/{wheel.name}\n"
    wrong = invoke("new", "my-op", "--path", str(tmp_path / "other"), "--kopf-path", str(tmp_path))
    assert wrong.exit_code == 1 and "needs a wheel of Kopf" in wrong.stderr
    assert not (tmp_path / "other").exists()


def test_manifests_of_new_projects_match_their_handlers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke("new", "my-op", "--path", str(tmp_path / "op")).exit_code == 0
    monkeypatch.chdir(tmp_path / "op")
    # In a separate process: models of other tests are declared in this one.
    names = ["--name", "my-op", "--image", "my-op:latest", "--namespace", "my-op"]
    command = [sys.executable, "-m", "kopf", "manifests", *names, "handlers.py"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed == (tmp_path / "op" / "deploy" / "operator.yaml").read_text()


def test_deployed_replicas_have_a_lease(handlers: str) -> None:
    found = objects(invoke("manifests", "--leader-elect", "--name", "op", handlers))
    (container,) = find("Deployment", found)["spec"]["template"]["spec"]["containers"]
    assert "--leader-elect-name=op" in container["args"]


def test_roles_contain_children_and_conversions(
    tmp_path: pathlib.Path, registry: kopf.OperatorRegistry
) -> None:
    path = tmp_path / "owners.py"
    path.write_text(
        HANDLERS + """
@kopf.on.child("deployments", parent="things")
def child(**_): ...

@kopf.on.update("things", owns=["configmaps", lambda resource: resource.plural == "secrets"])
def owner(**_): ...

@kopf.on.convert("things", source="v1", target="v2")
def convert(**_): ...
""")
    rules = find("ClusterRole", objects(invoke("rbac", "--standalone", str(path))))["rules"]
    verbs = {
        (group, resource): rule["verbs"]
        for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]
    }
    assert verbs["apps", "deployments"] == ["list", "watch"]
    assert verbs["", "configmaps"] == ["create", "get", "list", "patch", "watch"]
    assert verbs["", "secrets"] == ["create", "get", "list", "patch", "watch"]
    found = objects(invoke("manifests", "--standalone", str(path)))
    assert find("Service", found)["spec"]["ports"]
