import pytest

pytest.importorskip("kubernetes")

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sleeper"},
    "spec": {"containers": [{"name": "main", "image": "busybox"}]},
}


def test_old_pods_are_deleted(cluster, operate, monkeypatch):
    # Creation timestamps are truncated to seconds, so the computed age can be a second too large.
    monkeypatch.setenv("MAX_AGE", "3")
    with operate("-n", "default") as runner:
        cluster.create(POD)
        cluster.wait("pods", "sleeper")
    assert "The pod is too young." in runner.output
    assert "The pod is too old and is deleted." in runner.output
