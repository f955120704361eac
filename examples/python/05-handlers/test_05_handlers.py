def test_creation_calls_its_handlers(cluster, obj, operate, handled):
    with operate() as first:
        cluster.create(obj)
        cluster.wait("kopfexamples", "kopf-example-1", handled)
    assert "CREATED" in first.output
    assert "CREATED AGAIN" in first.output
    assert "FIELD: None -> 'value'" in first.output
    assert "RESUMED" not in first.output


def test_changes_and_deletion_call_their_handlers(cluster, obj, operate, handled):
    with operate() as runner:
        cluster.create(obj)
        cluster.wait("kopfexamples", "kopf-example-1", handled)
        cluster.patch("kopfexamples", "kopf-example-1", {"spec": {"field": "new"}})
        last_handled = "kopf.zalando.org/last-handled-configuration"
        cluster.wait(
            "kopfexamples",
            "kopf-example-1",
            lambda body: '"field":"new"' in body["metadata"]["annotations"][last_handled],
        )
        cluster.delete("kopfexamples", "kopf-example-1")
        cluster.wait("kopfexamples", "kopf-example-1")
    assert "UPDATED: change spec.field: 'value' -> 'new'" in runner.output
    assert "FIELD: 'value' -> 'new'" in runner.output
    assert "DELETED" in runner.output
    assert "Deleted, really deleted" in runner.output
