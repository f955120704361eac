def test_timers_are_called_regularly(cluster, obj, operate, await_message):
    def counted(body):
        return (body.get("status") or {}).get("count", 0) >= 3

    with operate() as runner:
        cluster.create(obj)
        cluster.wait("kopfexamples", "kopf-example-1", counted)
    assert "'counter' failed temporarily: Succeeds at the second attempt." in runner.output


def test_idle_timers_wait_for_unchanged_objects(cluster, obj, operate, await_message):
    # The counter changes the object more often than the idle time.
    with operate() as runner:
        cluster.create(obj)
        cluster.wait("kopfexamples", "kopf-example-1", lambda body: "status" in body)
    assert "Ping: field=value" not in runner.output
