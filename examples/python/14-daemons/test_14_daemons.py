def test_daemons_see_changes_and_exit_with_the_object(cluster, obj, operate, await_message):
    with operate() as runner:
        cluster.create(obj)
        await_message("Pinging in a task: field=value")
        await_message("Pinging in a thread.")
        cluster.patch("kopfexamples", "kopf-example-1", {"spec": {"field": "other"}})
        await_message("Pinging in a task: field=other")
        cluster.delete("kopfexamples", "kopf-example-1")
        cluster.wait("kopfexamples", "kopf-example-1")
    assert "'background_async' failed temporarily: Not now, but soon." in runner.output
    assert "Stopped: " in runner.output
