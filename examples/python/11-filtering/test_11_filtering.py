def test_only_matching_handlers_run(cluster, obj, operate, handled):
    last = "kopf.zalando.org/last-handled-configuration"
    with operate() as runner:
        cluster.create(obj)
        cluster.wait("kopfexamples", "kopf-example-1", handled)
        cluster.patch("kopfexamples", "kopf-example-1", {"spec": {"field": "changed"}})
        cluster.wait(
            "kopfexamples",
            "kopf-example-1",
            lambda body: '"changed"' in body["metadata"]["annotations"][last],
        )
    assert "The label has the value." in runner.output
    assert "The label is present." in runner.output
    assert "The other label is absent." in runner.output
    assert "The functions have returned true." in runner.output
    assert "The field's value is accepted." in runner.output
    assert "The field has changed." in runner.output
    assert "The annotation has another value." not in runner.output
