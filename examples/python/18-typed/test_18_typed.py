import pathlib

import pytest
import yaml
from click.testing import CliRunner

from kopf.cli import main

PROGRAM = pathlib.Path(__file__).parent / "handlers.py"


@pytest.fixture
def crds(tmp_path):
    result = CliRunner().invoke(main, ["crd", str(PROGRAM)])
    path = tmp_path / "crd.yaml"
    path.write_text(result.stdout)
    return [path]


def test_crd_has_the_schema_of_the_model(crds):
    # Other tests of the same process can declare models.
    manifests = list(yaml.safe_load_all(crds[0].read_text()))
    (manifest,) = [one for one in manifests if one["spec"]["names"]["kind"] == "Gateway"]
    schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["required"] == ["host"]


def test_handlers_get_models(cluster, operate):
    spec = {"host": "example.com", "ports": [{"number": 80}, {"number": 53, "protocol": "UDP"}]}
    gateway = {"apiVersion": "kopf.dev/v1", "kind": "Gateway", "metadata": {"name": "one"}}
    with operate() as runner:
        cluster.create({**gateway, "spec": spec})
        found = cluster.wait("gateways", "one", lambda body: "status" in body)
    cluster.delete("gateways", "one")
    assert found["status"]["open_ports"] == {"opened": 2}
    assert "Opening example.com:53/UDP" in runner.output
