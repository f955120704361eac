def test_result_is_in_the_status(cluster, obj, operate):
    with operate() as runner:
        cluster.create(obj)
        found = cluster.wait("kopfexamples", "kopf-example-1", lambda body: "status" in body)
    assert found["status"]["create_fn"] == {"message": "hello world"}
    assert "[default/kopf-example-1] Creating with" in runner.output
