"""The replay of the recording of admission webhooks."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import urllib.parse
from typing import Any

import golden_likeness as likeness
import pytest
from golden_fixtures import cluster, proxy, stage  # noqa: F401
from golden_stage import Stage, until

import kopf
from kopf._front.tools.clients import _credentials

pytestmark = pytest.mark.native

_API = "/apis/golden.example/v1/namespaces/g-a01/things"
_USER = re.compile(r"(Warning: checked \w+ \w+ \w+) .+")
_KINDS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")


def _configuration(stage: Stage, kind: str) -> Any:
    """Returns the configuration object; `None` if it is absent."""
    name = "auto.golden.example"
    return stage.cluster._find(f"{kind}.admissionregistration.k8s.io", name, None)


def _webhooks(stage: Stage, kind: str) -> list[Any]:
    return (_configuration(stage, kind) or {}).get("webhooks") or []


def _without_authority(webhooks: list[Any]) -> list[Any]:
    for webhook in webhooks:
        webhook["clientConfig"]["caBundle"] = "<CA>"
        for rule in webhook["rules"]:
            # Here, `subresource="*"` includes the main resource.
            if rule["resources"] == ["things/*"]:
                rule["resources"] = ["things", "things/*"]
    return webhooks


def _print(stage: Stage, method: str, path: str, body: Any = None, kind: str = "json") -> set[str]:
    """Sends a request as a user; returns the warnings and errors in the form of kubectl."""
    address, kubeconfig = stage.cluster._endpoint()
    context, headers = _credentials(kubeconfig)
    connection = http.client.HTTPSConnection(urllib.parse.urlsplit(address).netloc, context=context)
    headers = {**headers, "Content-Type": f"application/{kind}"}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    content = json.loads(response.read())
    warnings = re.findall(r'299 \S+ "((?:[^"\\]|\\.)*)"', response.getheader("Warning") or "")
    connection.close()
    lines = {f"Warning: {text}" for text in warnings}
    return lines if response.status < 400 else {*lines, content["message"]}


def _printed(recorded: str) -> set[str]:
    """Returns the warnings and errors printed by kubectl in the recording."""
    warnings = {line for line in recorded.splitlines() if line.startswith("Warning: ")}
    errors = re.findall(r'admission webhook "[^"]+" denied the request: .*', recorded)
    return {*warnings, *errors}


def _thing(name: str, spec: Any, **metadata: Any) -> Any:
    metadata = {"name": name, **metadata}
    manifest = {"apiVersion": "golden.example/v1", "kind": "Thing", "metadata": metadata}
    return {**manifest, "spec": {"items": ["a", "b"], **spec}}


def _post(path: str, body: Any) -> tuple[int, str]:
    """Sends a review to the webhook server."""
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", 54399, context=context)
    connection.request("POST", path, body if isinstance(body, str) else json.dumps(body))
    response = connection.getresponse()
    content = response.read().decode()
    connection.close()
    return response.status, content


def _check_reviews(stage: Stage) -> None:
    requests = json.loads((stage.recording / "requests.json").read_text())
    review = requests[0]["body"]
    nothings = json.loads(json.dumps(review))
    nothings["request"]["resource"]["resource"] = "nothings"
    missing = json.loads(json.dumps(review))
    del missing["request"]["object"]
    notes = {"unknown resource": nothings, "missing data": missing}
    compared = 0
    for request in requests:
        after = request["after"]
        status, content = _post(request["path"], request.get("body", notes.get(after)))
        expected, _, code = stage.moment(after, "curl").rpartition("\n")
        if after == "review unknown id":
            # The original admits everything here, so configuration errors are not detected.
            assert status == 404
        elif after == "review no id":
            # The original calls no handlers here.
            response = json.loads(content)["response"]
            assert response["allowed"] is True and response["warnings"]
        else:
            assert status == int(code), after
            if status == 200:
                assert _answer(content) == _answer(expected), after
        compared += 1
    assert compared == 7


def _answer(content: str) -> Any:
    answer = json.loads(content)
    patch = answer["response"].pop("patch", None)
    # The order of operations on different fields is ignored.
    operations = json.loads(base64.b64decode(patch)) if patch else []
    return answer, sorted(operations, key=lambda operation: str(operation["path"]))


@pytest.mark.recording("a01-admission")
def test_admission(stage: Stage) -> None:  # noqa: F811
    certificate, key = kopf.WebhookServer.build_certificate(["127.0.0.1"])
    (stage.folder / "cert.pem").write_bytes(certificate)
    (stage.folder / "key.pem").write_bytes(key)
    operator = stage.start()
    for kind, number in zip(_KINDS, (4, 1)):
        until(f"all {kind}", lambda: len(_webhooks(stage, kind)) == number)
    started = [m["object"] for m in stage.moments if m["after"] == "started"]
    for kind, recorded in zip(_KINDS, started):
        ours = _without_authority(_webhooks(stage, kind))
        assert ours == _without_authority(recorded["webhooks"]), kind

    # The API server can start to call webhooks with a delay after their configuration.
    probe = ("POST", f"{_API}?dryRun=All", _thing("probe", {}))
    until("the webhooks are called", lambda: _print(stage, *probe))
    labels = {"mutate": "yes", "other": "x"}
    plays: list[tuple[str, str, str, Any, str]] = [
        ("create ok", "POST", _API, _thing("ok", {"field": "value"}), "json"),
        ("wrong", "POST", _API, _thing("w1", {"field": "wrong"}), "json"),
        ("permanent", "POST", _API, _thing("w2", {"field": "perm"}), "json"),
        ("arbitrary", "POST", _API, _thing("w3", {"field": "boom"}), "json"),
        ("dry run", "POST", f"{_API}?dryRun=All", _thing("w4", {"field": "value"}), "json"),
        ("mutated", "POST", _API, _thing("mut", {"field": "value"}, labels=labels), "json"),
        (
            "bad status",
            "PATCH",
            f"{_API}/ok/status",
            {"status": {"bad": True}},
            "merge-patch+json",
        ),
        ("to keep", "POST", _API, _thing("keepme", {"field": "value", "keep": True}), "json"),
        ("delete kept", "DELETE", f"{_API}/keepme", None, "json"),
    ]
    for after, method, path, body, kind in plays:
        # The name of the user depends on the cluster.
        recorded = stage.moment(after, "kubectl").replace(" admin\n", " USER\n")
        found = {_USER.sub(r"\1 USER", line) for line in _print(stage, method, path, body, kind)}
        assert found == _printed(recorded), after
    stage.reaches("mutated")
    _check_reviews(stage)

    operator.stop()
    left = [m["names"] for m in stage.moments if m["after"] == "exited"]
    for kind, names in zip(_KINDS, left):
        assert [webhook["name"] for webhook in _webhooks(stage, kind)] == names, kind
    for name in ("ok", "w1", "w2", "w3", "w4", "mut", "keepme"):
        ours = sorted(likeness.main_lines(stage.lines(), name))
        theirs = sorted(likeness.main_lines(stage.recorded_lines(), name))
        assert ours == theirs, name
    for kind in _KINDS:
        resource = f"{kind}.admissionregistration.k8s.io"
        stage.cluster.delete(resource, "auto.golden.example", namespace=None)
