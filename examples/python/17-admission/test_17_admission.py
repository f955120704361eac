import pytest

from kopf.testing import ClusterError


def test_requests_are_reviewed(cluster, obj, operate):
    with operate() as runner:
        for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            cluster.wait(kind, "auto.kopf.dev", lambda body: body.get("webhooks"), namespace=None)
        del obj["spec"]["duration"]
        created = cluster.create(obj)
        assert created["metadata"]["labels"]["creator"]
        assert created["spec"]["duration"] == "1m"
        with pytest.raises(ClusterError, match="This field is wrong."):
            cluster.patch("kopfexamples", "kopf-example-1", {"spec": {"field": "wrong"}})
        kept = {"metadata": {"annotations": {"keep": "yes"}}}
        cluster.patch("kopfexamples", "kopf-example-1", kept)
        with pytest.raises(ClusterError, match="kopf-example-1 must be kept."):
            cluster.delete("kopfexamples", "kopf-example-1")
        released = {"metadata": {"annotations": {"keep": None}}}
        cluster.patch("kopfexamples", "kopf-example-1", released)
        cluster.delete("kopfexamples", "kopf-example-1")
    assert "Admitted; dry run: False." in runner.output
