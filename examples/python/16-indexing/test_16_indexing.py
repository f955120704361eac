def pod(name, **labels):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }


def test_pods_are_found_by_labels(cluster, obj, operate):
    cluster.create(pod("indexed-1", somelabel="somevalue"))
    cluster.create(pod("indexed-2", somelabel="othervalue"))
    cluster.create(pod("indexed-3"))
    cluster.patch("pods", "indexed-1", {"status": {"phase": "Running"}}, subresource="status")
    try:
        with operate() as runner:
            cluster.create(obj)
            found = cluster.wait("kopfexamples", "kopf-example-1", lambda body: "status" in body)
            cluster.patch("kopfexamples", "kopf-example-1", {"spec": {"field": "other"}})
            cluster.wait(
                "kopfexamples",
                "kopf-example-1",
                lambda body: body["status"]["look"]["looks"] == 2,
            )
    finally:
        for name in ("indexed-1", "indexed-2", "indexed-3"):
            cluster.delete("pods", name)
    assert found["status"]["look"] == {"alike": ["indexed-1"], "looks": 1}
    assert "indexed-1 is running." in runner.output
