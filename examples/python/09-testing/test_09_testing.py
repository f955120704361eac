"""A test of an operator on a sandbox in the same process."""

import pathlib

from kopf.testing import KopfRunner, sandbox

HERE = pathlib.Path(__file__).parent
CRD = HERE.parent.parent / "crd.yaml"
OBJECT = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one"}}


def test_greeting():
    with sandbox(CRD) as cluster:
        with KopfRunner(["run", "-A", str(HERE / "handlers.py")], timeout=30) as runner:
            cluster.create({**OBJECT, "spec": {"field": "world"}})
            cluster.wait("kopfexamples", "one", lambda body: "status" in body)
        assert cluster.get("kopfexamples", "one")["status"]["greeted"] == "world"
    assert runner.exit_code == 0
    assert "Hello, world!" in runner.output


def test_reminders():
    """A day in a second."""
    with sandbox(CRD, time="virtual") as cluster:
        with KopfRunner(["run", "-A", str(HERE / "handlers.py")], timeout=30):
            cluster.create({**OBJECT, "spec": {"field": "world"}})
            cluster.wait("kopfexamples", "one", lambda body: "status" in body)
            cluster.advance(24 * 3600 + 60)
            cluster.wait("kopfexamples", "one", lambda body: body["status"].get("reminders") == 24)


def test_handlers_are_functions():
    """Handlers can be called directly, without a cluster."""
    import logging
    import runpy

    import kopf

    greet = runpy.run_path(str(HERE / "handlers.py"))["greet"]
    patch = kopf.Patch()
    greet(spec={"field": "you"}, logger=logging.getLogger(), patch=patch)
    assert patch == {"status": {"greeted": "you"}}
