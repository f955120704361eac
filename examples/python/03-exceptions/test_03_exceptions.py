def test_errors_are_retried_by_their_type_and_options(cluster, obj, operate, handled):
    with operate() as runner:
        cluster.create(obj)
        found = cluster.wait("kopfexamples", "kopf-example-1", handled)
    assert found["status"]["temporary"] == {"attempts": 4}
    assert runner.output.count("Handler 'temporary' failed temporarily") == 3
    assert runner.output.count("Handler 'permanent' failed permanently") == 1
    assert runner.output.count("Handler 'limited' failed with an exception") == 3
    assert "Handler 'hopeless' failed with an exception" in runner.output
    assert "Handler 'ignored' failed with an exception and will ignore it" in runner.output
    assert "Creation is processed: 2 succeeded; 3 failed." in runner.output
