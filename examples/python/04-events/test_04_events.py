EXPECTED = {
    ("SomeType", "SomeReason", "Some message"),
    ("Normal", "SomeReason", "Some information"),
    ("Warning", "SomeReason", "Some warning"),
    ("Error", "SomeReason", "Some exception: invalid literal for int() with base 10: 'one'"),
}


def test_events_are_posted(cluster, obj, operate):
    with operate():
        uid = cluster.create(obj)["metadata"]["uid"]

        def posted(_):
            return found() >= EXPECTED

        def found():
            events = [e for e in cluster.all("events") if e["involvedObject"].get("uid") == uid]
            return {(event["type"], event["reason"], event["message"]) for event in events}

        cluster.wait("kopfexamples", "kopf-example-1", posted)
