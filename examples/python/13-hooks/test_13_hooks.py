import json
import socket
import urllib.request


def test_activities_are_called_and_probes_are_served(cluster, obj, operate, handled):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    url = f"http://127.0.0.1:{port}/healthz"
    with operate("--liveness", url) as runner:
        cluster.create(obj)
        cluster.wait("kopfexamples", "kopf-example-1", handled)
        with urllib.request.urlopen(url) as response:
            probes = json.load(response)
    assert probes["created"] == 0
    assert probes["now"].startswith("20")
    assert "Connected to db://somewhere." in runner.output
    assert "Logging in." in runner.output
    assert "Storing kopf-example-1 in db://somewhere." in runner.output
    assert "Disconnected from db://somewhere." in runner.output
