"""`kopf get`, `explain`, `retrigger`, `release` and `ui`: commands of the extension."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
import pathlib
import pty
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from behaviour import until
from kopf import cli, testing

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}

RECORD = '{"retries":2,"delayed":"2099-01-02T03:04:05Z","message":"not ready"}'

THING = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {
        "name": "one",
        "namespace": "default",
        "annotations": {"kopf.zalando.org/create_fn": RECORD},
        "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"],
    },
    "spec": {"field": 1},
}


def kopf(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kopf", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def state() -> Any:
    done = kopf("get", "things", "one", "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["items"][0]


def test_objects_are_inspected_retriggered_and_released() -> None:
    with testing.sandbox(CRD, THING, environ=True):
        assert state()["state"]["name"] == "retrying"
        done = kopf("explain", "thing", "one", "-n", "default")
        assert "create_fn: next attempt in" in done.stdout, done
        done = kopf("retrigger", "thing", "one")
        assert done.returncode == 0 and "handles it as a new object" in done.stdout, done
        assert state()["state"]["name"] == "handling"
        assert kopf("release", "things", "--all").returncode == 1
        assert kopf("release", "things", "--all", "-y").returncode == 0
        assert state()["finalizers"] == []


def on_terminal(answer: str, *arguments: str) -> tuple[int, str]:
    """Runs a command on a pseudo-terminal and confirms. Returns the exit code and the output."""
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "kopf", *arguments]
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, close_fds=True)
    os.close(inner)
    output = ""
    # On Linux, reading fails with EIO when the other side is closed.
    with contextlib.suppress(OSError), os.fdopen(outer, "rb+", buffering=0) as terminal:
        while chunk := terminal.read(1024):
            output += chunk.decode()
            if "[y/N]" in output and answer:
                terminal.write(f"{answer}\n".encode())
                answer = ""
    return process.wait(60), output


def test_release_is_confirmed_on_a_terminal() -> None:
    with testing.sandbox(CRD, THING, environ=True) as cluster:
        for answer in ("n", "maybe", "\x04"):
            code, output = on_terminal(answer, "release", "things", "--all")
            assert code == 1 and "not confirmed" in output, output
        assert state()["finalizers"]
        cluster.delete("things", "one")
        code, output = on_terminal("y", "release", "things", "--all")
        assert code == 0, output
        assert "1 object will be deleted without deletion handlers." in output
        assert "thing default/one is released and deleted" in output
        cluster.wait("things", "one")


def test_running_operators_are_reported_before_a_release() -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    spec = {
        "holderIdentity": "op@host",
        "leaseDurationSeconds": 15,
        "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    metadata = {"name": "op", "namespace": "default", "labels": {"kopf.dev/role": "leader"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    foreign = {**metadata, "name": "other", "labels": {}}
    with testing.sandbox(CRD, THING, {**lease, "spec": spec}, {**lease, "metadata": foreign}, environ=True):
        done = kopf("release", "things", "--all", "--dry-run")
        assert done.returncode == 0 and "thing default/one would be released" in done.stdout
        assert done.stderr.count("a running operator") == 1, done.stderr
        assert "op@host holds the Lease default/op" in done.stderr


def test_invalid_input_is_reported() -> None:
    with testing.sandbox(CRD, environ=True):
        done = kopf("get", "absent")
        assert done.returncode == 1 and "has no resource" in done.stderr, done
        assert kopf("get", "things", "--absent").returncode == 2


@pytest.mark.parametrize("command", ["get", "explain", "retrigger", "release", "ui"])
def test_help_is_provided_by_the_extension(command: str) -> None:
    done = kopf(command, "--help")
    assert done.returncode == 0
    assert f"Usage: kopf {command} " in done.stdout
    listed = CliRunner().invoke(cli.main, ["--help"])
    assert f"\n  {command} " in listed.output


def test_own_prefixes_and_finalizers_are_recognised() -> None:
    prefix = "my-op.example.com"
    settled = json.dumps({"spec": {"field": 1}}) + "\n"
    annotations = {
        f"{prefix}/kopf-managed": "yes",
        f"{prefix}/last-handled-configuration": settled,
    }
    metadata = {**THING["metadata"], "annotations": annotations}  # type: ignore[dict-item]
    thing = {**THING, "metadata": {**metadata, "finalizers": [f"{prefix}/my-finalizer"]}}
    with testing.sandbox(CRD, thing, environ=True) as cluster:
        assert state()["state"]["name"] == "settled"
        done = kopf("retrigger", "thing", "one", "--handler", "create_fn")
        assert done.returncode == 0, done
        stored = cluster.get("things", "one")["metadata"]["annotations"]
        assert "create_fn" in stored[f"{prefix}/retrigger-request"]
        assert not any(key.startswith("kopf.zalando.org/") for key in stored)
        assert kopf("retrigger", "thing", "one").returncode == 0
        assert state()["state"]["name"] == "handling", "the finalizer and the mark are left"
        done = kopf("release", "things", "one", "-y")
        assert done.returncode == 0, done
        metadata = cluster.get("things", "one")["metadata"]
        assert "annotations" not in metadata and "finalizers" not in metadata
        assert state()["state"]["name"] == "not seen"


def test_the_state_of_several_operators_is_not_removed_together() -> None:
    settled = json.dumps({"spec": {"field": 1}}) + "\n"
    changed = json.dumps({"spec": {"field": 2}}) + "\n"
    annotations = {
        "kopf.zalando.org/last-handled-configuration": settled,
        "other.example.com/kopf-managed": "yes",
        "other.example.com/last-handled-configuration": changed,
    }
    thing = {**THING, "metadata": {**THING["metadata"], "annotations": annotations}}  # type: ignore[dict-item]
    with testing.sandbox(CRD, thing, environ=True):
        assert state()["state"]["name"] == "changed", "the more urgent state"
        for command in (["release", "-y"], ["retrigger"]):
            done = kopf(command[0], "things", "one", *command[1:])
            assert done.returncode == 1 and "the state of several operators" in done.stderr, done
            assert "--annotation-prefix" in done.stderr
        done = kopf("release", "things", "one", "-y", "--annotation-prefix", "other.example.com")
        assert done.returncode == 0, done
        assert state()["state"]["name"] == "settled"
        assert state()["finalizers"] == THING["metadata"]["finalizers"]  # type: ignore[index]


def test_json_has_no_control_characters() -> None:
    record = {"retries": 1, "delayed": "2099-01-02T03:04:05Z", "message": "a\x9b31m\u202eb\x7f"}
    annotations = {"kopf.zalando.org/create_fn": json.dumps(record)}
    thing = {**THING, "metadata": {**THING["metadata"], "annotations": annotations}}  # type: ignore[dict-item]
    with testing.sandbox(CRD, thing, environ=True):
        for arguments in (["get", "things"], ["explain", "thing", "one"]):
            done = kopf(*arguments, "-o", "json")
            assert "a\\u009b31m\\u202eb\\u007f" in done.stdout, done
            assert not set(done.stdout) & set("\x9b\u202e\x7f")
            json.loads(done.stdout)


@contextlib.contextmanager
def page(*arguments: str) -> Iterator[urllib.parse.SplitResult]:
    """Runs `kopf ui`; yields the URL of the page."""
    command = [sys.executable, "-m", "kopf", "ui", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            [url] = [line.split()[1] for line in itertools.islice(lines, 2) if "http" in line]
            yield urllib.parse.urlsplit(url)
        finally:
            process.terminate()


def connect(url: urllib.parse.SplitResult, path: str | None = None) -> socket.socket:
    """Connects to the page, and sends a request with the token if there is a path."""
    sock = socket.create_connection((str(url.hostname), url.port or 0), timeout=5)
    if path is not None:
        head = f"GET {path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n"
        sock.sendall(head.encode())
    return sock


def test_page_is_served_beside_many_idle_connections() -> None:
    with testing.sandbox(CRD, environ=True), page("things") as url, contextlib.ExitStack() as stack:
        stream = stack.enter_context(connect(url, "/api/stream"))
        assert stream.recv(1024).startswith(b"HTTP/1.1 200 OK")
        idle = [stack.enter_context(connect(url)) for _ in range(100)]
        served = stack.enter_context(connect(url, "/"))
        assert served.recv(1024).startswith(b"HTTP/1.1 200 OK")
        with contextlib.suppress(ConnectionError):
            assert idle[0].recv(1) == b"", "the oldest connection is closed"
        stream.settimeout(0.1)
        with contextlib.suppress(TimeoutError):
            assert stream.recv(1024), "a connection with the token is kept"


OPERATOR = """
import kopf

@kopf.on.startup()
def configure(settings, **_):
    prefix = "my-op.example.com"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=prefix)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix=prefix, ignored_fields=["spec.ignored"])

@kopf.on.create("things")
def create(**_):
    pass

@kopf.index("others")
def names(name, **_):
    return {name: True}
"""


def ask(url: urllib.parse.SplitResult, path: str, body: Any = None, **query: str) -> Any:
    """Sends a request to the page."""
    address = f"{url.scheme}://{url.netloc}{path}?{urllib.parse.urlencode(query)}"
    headers = {"x-kopf-token": urllib.parse.parse_qs(url.query)["token"][0]}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_page_of_an_operator_knows_its_settings_and_handlers(tmp_path: pathlib.Path) -> None:
    names = {"plural": "others", "singular": "other", "kind": "Other"}
    others = {**CRD, "metadata": {"name": "others.example.com"},
              "spec": {**CRD["spec"], "names": names}}  # type: ignore[dict-item]
    thing = {**THING, "metadata": {"name": "one", "namespace": "default"}}
    for number, manifest in enumerate((CRD, others, thing, {**thing, "kind": "Other"})):
        (tmp_path / f"{number}.json").write_text(json.dumps(manifest))
    operator = tmp_path / "operator.py"
    operator.write_text(OPERATOR)
    command = [sys.executable, "-m", "kopf", "run", "--sandbox", "-f", str(tmp_path), str(operator)]
    where = {"kind": "things.example.com", "namespace": "default", "name": "one"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            url = urllib.parse.urlsplit(next(line.split()[1] for line in lines if "browser" in line))
            until(lambda: ask(url, "/api/overview")["kinds"] == ["things.example.com"])
            settled = {"name": "settled"}
            until(lambda: ask(url, "/api/object", **where)["state"] == settled)
            code, text = ask(url, "/api/retrigger", {**where, "handler": "absent"})
            assert code == 400, text
            assert 'there is no handler "absent" of things.example.com; its handlers: create' in text
            assert "called again" in ask(url, "/api/retrigger", {**where, "handler": "create"})["result"]
        finally:
            process.terminate()
