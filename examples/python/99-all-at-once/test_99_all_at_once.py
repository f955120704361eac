def test_all_handlers_run(cluster, obj, operate, handled, await_message):
    def noticed(body):
        return handled(body) and (body.get("status") or {}).get("noticed")

    def changed(body):
        last = body["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"]
        return '"field":"new"' in last

    with operate() as runner:
        cluster.create(obj)
        found = cluster.wait("kopfexamples", "kopf-example-1", noticed)
        await_message("SEEN: value")
        cluster.patch("kopfexamples", "kopf-example-1", {"spec": {"field": "new"}})
        cluster.wait("kopfexamples", "kopf-example-1", changed)
        cluster.delete("kopfexamples", "kopf-example-1")
        cluster.wait("kopfexamples", "kopf-example-1")
    assert found["status"]["create_fn"] == {"with-this-field": 1}
    for message in ("STARTED", "CREATED", "HANDLED item1", "HANDLED item2", "UPDATED: ",
                    "FIELD: value -> new", "DELETED", "NOT MONITORED", "CLEANED UP"):  # fmt: skip
        assert message in runner.output
