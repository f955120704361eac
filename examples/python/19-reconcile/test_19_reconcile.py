def test_child_follows_the_object_and_is_restored(cluster, obj, operate, await_message):
    def has(field):
        return lambda body: body["data"]["field"] == field

    with operate():
        cluster.create(obj)
        cluster.wait("configmaps", "kopf-example-1", has("value"))
        cluster.delete("configmaps", "kopf-example-1")
        await_message("Reconciling kopf-example-1: child.")
        cluster.wait("configmaps", "kopf-example-1", has("value"))
        cluster.patch("kopfexamples", "kopf-example-1", {"spec": {"field": "other"}})
        cluster.wait("configmaps", "kopf-example-1", has("other"))
        cluster.wait("kopfexamples", "kopf-example-1",
                     lambda body: (body.get("status") or {}).get("synced") == "other")
        cluster.delete("kopfexamples", "kopf-example-1")
        await_message("Goodbye, kopf-example-1.")
