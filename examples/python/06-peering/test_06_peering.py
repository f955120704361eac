import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2]
PEERING = EXAMPLES.parent / "crates" / "kopf-shipping" / "manifests" / "peering.yaml"


@pytest.fixture
def crds():
    return [EXAMPLES / "crd.yaml", PEERING]


def test_operator_pauses_for_a_higher_priority(cluster, obj, operate, handled):
    record = {"priority": 100, "lifetime": 3600, "lastseen": "2099-01-01T00:00:00+00:00"}
    cluster.patch("clusterkopfpeerings", "default", {"status": {"other": record}}, namespace=None)
    with operate("--peering", "default") as runner:
        # The record of the operator in the peering object shows that it is running.
        cluster.wait(
            "clusterkopfpeerings",
            "default",
            lambda body: len(body["status"]) == 2,
            namespace=None,
        )
        created = cluster.create(obj)
        assert not handled(created)
        cluster.patch("clusterkopfpeerings", "default", {"status": {"other": None}}, namespace=None)
        cluster.wait("kopfexamples", "kopf-example-1", handled)
    assert "Resuming operations after the pause." in runner.output
    assert "Handled the create." in runner.output
