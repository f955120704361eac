import pytest

pytest.importorskip("kubernetes")


def test_pod_is_owned_by_the_object(cluster, obj, operate):
    with operate():
        parent = cluster.create(obj)
        found = cluster.wait("kopfexamples", "kopf-example-1", lambda body: "status" in body)
    pods = [pod for pod in cluster.all("pods") if pod["metadata"].get("ownerReferences")]
    assert [pod["metadata"]["uid"] for pod in pods] == found["status"]["create_pod"]["children"]
    assert pods[0]["metadata"]["ownerReferences"][0]["uid"] == parent["metadata"]["uid"]
    assert pods[0]["metadata"]["labels"] == {"somelabel": "somevalue"}
    assert pods[0]["metadata"]["name"].startswith("kopf-example-1-")
    for pod in pods:
        cluster.delete("pods", pod["metadata"]["name"])


def test_invalid_duration_fails_permanently(cluster, obj, operate, handled):
    obj["spec"]["duration"] = 60
    with operate() as runner:
        cluster.create(obj)
        cluster.wait("kopfexamples", "kopf-example-1", handled)
    assert "failed permanently: spec.duration must be a string such as 1m, not 60" in runner.output
