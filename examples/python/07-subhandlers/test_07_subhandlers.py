def test_each_item_is_handled_once(cluster, obj, operate, handled):
    with operate() as runner:
        cluster.create(obj)
        found = cluster.wait("kopfexamples", "kopf-example-1", handled)
    assert runner.output.count("Handling item1.") == 1
    assert runner.output.count("Handling item2.") == 1
    assert "Handler 'create_items/item2' failed temporarily: Not yet." in runner.output
    assert found["status"]["create_items/item1"] == {"handled": "item1"}
