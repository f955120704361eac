def test_events_are_handled_and_objects_are_not_changed(cluster, obj, operate, await_message):
    created = cluster.create(obj)
    with operate() as runner:
        await_message("LISTED: kopf-example-1")
        cluster.patch("kopfexamples", "kopf-example-1", {"metadata": {"labels": {"a": "b"}}})
        found = cluster.get("kopfexamples", "kopf-example-1")
        await_message("MODIFIED: kopf-example-1")
        cluster.delete("kopfexamples", "kopf-example-1")
        await_message("DELETED: kopf-example-1")
    assert found["metadata"]["annotations"] == created["metadata"]["annotations"]
    assert "finalizers" not in found["metadata"]
    assert runner.exit_code == 0
