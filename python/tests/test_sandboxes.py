"""The sandbox as a context manager and a fixture."""

from __future__ import annotations

import os
import pathlib
import stat
import sys
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

import kopf
from kopf import testing
from kopf._front.tools import sandboxes
from kopf._front.tools.clients import ClusterError

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.kopf.dev"},
    "spec": {
        "group": "kopf.dev",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
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


class FakeSandbox:
    """A native sandbox that does nothing."""

    url = "http://localhost:1"
    kubeconfig = "text"
    stopped = False

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        made.append(self)

    def start(self) -> None:
        if "fail" in self.options["manifests"]:
            raise RuntimeError("bad manifest")

    def stop(self) -> None:
        self.stopped = True


made: list[FakeSandbox] = []


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[FakeSandbox]:
    made.clear()
    module = SimpleNamespace(Sandbox=FakeSandbox)
    monkeypatch.setitem(sys.modules, "kopf._kopf", module)  # type: ignore[arg-type]
    monkeypatch.setattr(kopf, "_kopf", module, raising=False)
    return made


def test_environment_is_set_and_restored(
    fake: list[FakeSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "before")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "real.cluster")
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    with testing.sandbox(environ=True) as cluster:
        path = pathlib.Path(os.environ["KUBECONFIG"])
        assert path.read_text() == "text"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert cluster.kubeconfig == str(path)
        assert cluster.url == "http://localhost:1"
        assert "KUBERNETES_SERVICE_HOST" not in os.environ
    assert os.environ["KUBECONFIG"] == "before"
    assert os.environ["KUBERNETES_SERVICE_HOST"] == "real.cluster"
    assert "KUBERNETES_SERVICE_PORT" not in os.environ
    assert not path.exists()
    assert fake[0].stopped


def test_environment_is_not_changed_by_default(
    fake: list[FakeSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kopf._front.state import piggybacking

    monkeypatch.setenv("KUBECONFIG", "before")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "real.cluster")
    before = dict(os.environ)
    assert piggybacking.sandbox_kubeconfig() is None
    with testing.sandbox() as outer:
        assert dict(os.environ) == before
        assert piggybacking.sandbox_kubeconfig() == outer.kubeconfig
        with testing.sandbox() as inner:
            assert piggybacking.sandbox_kubeconfig() == inner.kubeconfig
        with testing.sandbox(environ=True) as exported:
            assert piggybacking.sandbox_kubeconfig() is None
            assert os.environ["KUBECONFIG"] == exported.kubeconfig
        assert piggybacking.sandbox_kubeconfig() == outer.kubeconfig
    assert piggybacking.sandbox_kubeconfig() is None
    assert dict(os.environ) == before


HANDLERS = """
import kopf

@kopf.on.create("things")
def fn(**_):
    return "done"
"""


@pytest.mark.native
@pytest.mark.parametrize("logins", ["default", "none"])
def test_operators_log_in_without_the_environment(
    logins: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    (tmp_path / "handlers.py").write_text(HANDLERS)
    registry = kopf.OperatorRegistry() if logins == "none" else None
    command = ["run", "-A", "--standalone", str(tmp_path / "handlers.py")]
    if registry is not None:
        kopf.on.create("things", id="fn", registry=registry)(lambda **_: "done")
        command = ["run", "-A", "--standalone"]
    with testing.sandbox(CRD) as cluster, testing.KopfRunner(command, registry=registry, timeout=60):
        cluster.create({"apiVersion": "kopf.dev/v1", "kind": "Thing", "metadata": {"name": "one"}})
        cluster.wait("things", "one", lambda obj: obj.get("status", {}).get("fn") == "done")
        cluster.delete("things", "one")
        cluster.wait_deleted("things", "one")


@pytest.mark.native
def test_faults_and_actions_are_methods() -> None:
    thing = {"apiVersion": "kopf.dev/v1", "kind": "Thing", "metadata": {"name": "one"}}
    with testing.sandbox(CRD) as cluster:
        first, second = cluster.add_faults(
            {"fault": "error", "code": 409, "verbs": ["create"], "kind": "things", "times": 1},
            {"fault": "error", "code": 500, "verbs": ["get"], "kind": "things"},
        )
        with pytest.raises(ClusterError) as error:
            cluster.create(thing)
        assert error.value.status == 409
        cluster.create(thing)
        assert len(cluster.faults()["rules"]) == 2
        cluster.remove_faults(second)
        assert cluster.get("things", "one")
        cluster.remove_faults()
        assert cluster.faults()["rules"] == []
        assert first != second
        cluster.kill_watches()
        cluster.compact()
        cluster.reset_connections()
        assert cluster.get("things", "one")
        with pytest.raises(ClusterError, match="unknown"):
            cluster.add_faults({"fault": "wrong"})


def test_manifests_are_files_folders_and_objects(
    fake: list[FakeSandbox], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "b.yaml").write_text("b")
    (tmp_path / "a.json").write_text("a")
    (tmp_path / "notes.txt").write_text("no")
    with testing.sandbox(tmp_path, str(tmp_path / "b.yaml"), {"kind": "X"}, rbac=True):
        pass
    assert fake[0].options == {
        "rbac": True, "manifests": ["a", "b", "b", '{"kind": "X"}'], "dumps": [],
    }


def test_missing_manifests_start_nothing(fake: list[FakeSandbox]) -> None:
    with pytest.raises(FileNotFoundError), testing.sandbox("absent.yaml"):
        pass
    assert fake == []


def test_failed_starts_leave_the_environment(
    fake: list[FakeSandbox], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "before")
    path = tmp_path / "x.yaml"
    path.write_text("fail")
    with pytest.raises(RuntimeError, match="bad manifest"), testing.sandbox(path):
        pass
    assert os.environ["KUBECONFIG"] == "before"


def test_attributes_require_a_start() -> None:
    with pytest.raises(RuntimeError, match="not started"):
        _ = testing.sandbox().url


cluster = testing.sandbox_fixture(CRD)


@pytest.mark.native
def test_objects_are_created_changed_and_deleted(cluster: testing.sandbox) -> None:
    cluster.create({"apiVersion": "kopf.dev/v1", "kind": "Thing", "metadata": {"name": "one"}})
    cluster.patch("things.kopf.dev", "one", {"spec": {"x": 1}})
    cluster.patch("things", "one", [{"op": "add", "path": "/spec/y", "value": 2}])
    assert cluster.wait("things", "one", lambda obj: "spec" in obj)["spec"] == {"x": 1, "y": 2}
    assert [item["metadata"]["name"] for item in cluster.all("things")] == ["one"]
    cluster.delete("things", "one")
    assert cluster.wait("things", "one") is None


@pytest.mark.native
def test_page_shows_resources_that_are_defined_later() -> None:
    thing = {"apiVersion": "kopf.dev/v1", "kind": "Thing", "metadata": {"name": "one"}}
    with testing.sandbox() as cluster:
        url = sandboxes.open_page(cluster)
        with urllib.request.urlopen(url.replace("/?", "/api/stream?"), timeout=60) as stream:
            cluster.create(CRD)
            cluster.create(thing)
            changes = next(line for line in stream if b"things.kopf.dev" in line)
            assert b'"name":"one"' in changes
            cluster.delete("customresourcedefinitions", "things.kopf.dev")
            next(line for line in stream if line.startswith(b'data: ["'))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=60)


@pytest.mark.native
def test_errors_of_the_server_are_raised(cluster: testing.sandbox) -> None:
    with pytest.raises(ClusterError, match='things.kopf.dev "absent" not found') as caught:
        cluster.get("things", "absent")
    assert caught.value.status == 404


def test_imported_clients_use_the_new_kubeconfig(
    fake: list[FakeSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SimpleNamespace(KUBE_CONFIG_DEFAULT_LOCATION="before")
    monkeypatch.setitem(sys.modules, "kubernetes.config.kube_config", client)  # type: ignore[arg-type]
    with testing.sandbox(environ=True) as cluster:
        assert cluster.kubeconfig == client.KUBE_CONFIG_DEFAULT_LOCATION
    assert client.KUBE_CONFIG_DEFAULT_LOCATION == "before"


def test_kubeconfigs_of_other_servers_are_not_replaced(
    fake: list[FakeSandbox], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "config"
    path.write_text("clusters: [{name: production}]")
    chosen = testing.sandbox(kubeconfig=path)
    with pytest.raises(FileExistsError, match="not a kubeconfig of a sandbox"), chosen:
        pass
    assert path.read_text() == "clusters: [{name: production}]"
    assert fake[0].stopped


def test_chosen_kubeconfigs_are_kept_and_can_be_replaced(
    fake: list[FakeSandbox], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeSandbox, "kubeconfig", "clusters: [{name: kopf-sandbox}]")
    for _ in range(2):
        with testing.sandbox(kubeconfig=tmp_path / "config") as cluster:
            assert cluster.kubeconfig == str(tmp_path / "config")
        assert (tmp_path / "config").exists()


def test_options_are_passed_to_the_native_sandbox(
    fake: list[FakeSandbox], tmp_path: pathlib.Path
) -> None:
    rules = tmp_path / "faults.yaml"
    rules.write_text("- {fault: reset}")
    options: list[dict[str, Any]] = [
        {"simulate": True, "faults": rules},
        {"simulate": ["pods", "jobs"], "ready_after": 0.5, "faults": [{"fault": "reset"}]},
        {"simulate": "services", "data": tmp_path, "seed": 7},
        {"simulate": True, "answers": [{"pod": "db-*", "logs": "ready"}]},
    ]
    for given in options:
        with testing.sandbox(**given):
            pass
    seen = [{key: it for key, it in one.options.items() if key in _OPTIONS} for one in fake]
    assert seen == [
        {"simulate": "all", "faults": "- {fault: reset}"},
        {"simulate": "pods,jobs", "ready_after": 0.5, "faults": '[{"fault": "reset"}]'},
        {"simulate": "services", "data": str(tmp_path), "seed": 7},
        {"simulate": "all", "answers": '[{"pod": "db-*", "logs": "ready"}]'},
    ]


_OPTIONS = {"simulate", "ready_after", "answers", "faults", "data", "seed"}


@pytest.mark.native
def test_simulated_deployments_become_available() -> None:
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }
    with testing.sandbox(deployment, simulate=True, ready_after=0.01) as cluster:
        cluster.wait(
            "deployments", "web", lambda obj: obj.get("status", {}).get("readyReplicas") == 1
        )


@pytest.mark.native
def test_simulated_containers_have_scripted_logs() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db-0", "namespace": "default"},
        "spec": {"containers": [{"name": "db", "image": "db"}]},
    }
    answers = [{"pod": "db-*", "logs": "ready"}]
    with testing.sandbox(pod, simulate=True, ready_after=0.01, answers=answers) as cluster:
        cluster.wait("pods", "db-0", lambda obj: obj.get("status", {}).get("phase") == "Running")
        path = "/api/v1/namespaces/default/pods/db-0/log"
        assert cluster.request("GET", path) == {"message": "ready"}


@pytest.mark.native
def test_invalid_answers_are_rejected() -> None:
    cluster = testing.sandbox(simulate=True, answers=[{"pod": "db-0"}])
    with pytest.raises(ValueError, match="answers: answer 1: must have either `logs` or `command`"), cluster:
        pass


@pytest.mark.native
def test_objects_in_a_data_folder_are_kept(tmp_path: pathlib.Path) -> None:
    with testing.sandbox(CRD, data=tmp_path / "data"):
        pass
    with testing.sandbox(data=tmp_path / "data") as cluster:
        assert cluster.get("customresourcedefinitions", "things.kopf.dev")


HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "hook"},
    "webhooks": [{
        "name": "hook.kopf.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "ops", "name": "op"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
    }],
}


@pytest.mark.native
@pytest.mark.parametrize("services", [{"ops/op": "https://127.0.0.1:1"}, ["ops/op=https://127.0.0.1:1"]])
def test_services_are_mapped_to_urls(services: Any) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    with testing.sandbox(HOOK, services=services) as cluster:
        with pytest.raises(testing.ClusterError) as info:
            cluster.create(config_map)
    assert 'Post "https://op.ops.svc:443/?timeout=10s": dial tcp 127.0.0.1:1' in str(info.value)
    with testing.sandbox(HOOK) as cluster, pytest.raises(testing.ClusterError) as info:
        cluster.create(config_map)
    assert 'service "op" not found' in str(info.value)


@pytest.mark.native
def test_malformed_services_are_rejected() -> None:
    cluster = testing.sandbox(services={"op": "https://127.0.0.1:1"})
    with pytest.raises(ValueError, match="must be NAMESPACE/NAME=https://"), cluster:
        pass


@pytest.mark.native
def test_unknown_kinds_cannot_be_simulated() -> None:
    cluster = testing.sandbox(simulate="cronjobs")
    with pytest.raises(ValueError, match='unknown kind "cronjobs"'), cluster:
        pass


@pytest.mark.parametrize(("manifest", "key"), [({"a": 1}, "apiVersion"), ({"apiVersion": "v1"}, "kind")])
def test_incomplete_manifests_are_rejected(manifest: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError, match=f"invalid manifest: {key} is missing"):
        kopf.testing.sandbox().create(manifest)
