"""Replays of the recordings of the original: the same operators, run by this package.

The recorded `operator.py` files run unmodified; the writes, the objects at every recorded step, and
the main log lines must be the same. Decisions of this project are left out: no touch writes, the
annotation for changes during handling, log records as k8s-events by default.
With `KOPF_TEST_KUBECONFIG`, they run on that cluster instead of a sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import golden_likeness as likeness
import pytest
import yaml
from golden_proxy import RecordingProxy
from golden_stage import CRD, PEERING, Stage, staged, until

from kopf.testing import ClusterClient, ClusterError, sandbox

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterClient]:
    """A cluster with the kinds of the recordings."""
    kubeconfig = os.environ.get("KOPF_TEST_KUBECONFIG")
    if kubeconfig is None:
        with sandbox(CRD, PEERING) as started:
            yield started
        return
    client = ClusterClient(kubeconfig)
    for manifest in (CRD, *yaml.safe_load_all(PEERING.read_text())):
        with contextlib.suppress(ClusterError, LookupError):
            client.create(manifest)
    yield client
    client.close()


@pytest.fixture(scope="module")
def proxy(cluster: ClusterClient) -> Iterator[RecordingProxy]:
    """A proxy that records the writes of operators."""
    with RecordingProxy(cluster) as started:
        yield started


@pytest.fixture
def stage(
    request: pytest.FixtureRequest,
    cluster: ClusterClient,
    proxy: RecordingProxy,
    tmp_path: pathlib.Path,
) -> Iterator[Stage]:
    """The replay of the recording of the test's marker."""
    marker = request.node.get_closest_marker("recording")
    assert marker is not None
    with staged(marker.args[0], cluster, proxy, tmp_path) as made:
        yield made


def _gone(stage: Stage) -> None:
    stage.delete()
    until("the deletion is noticed", lambda: "Deleted, really deleted" in _log(stage))


def _log(stage: Stage) -> str:
    return (stage.folder / "log.txt").read_text()


@pytest.mark.recording("s01-create-result")
def test_create_result(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("created")
    stage.settle()
    _gone(stage)
    stage.compare("obj")


@pytest.mark.recording("s02-finalizer")
def test_finalizer(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("created")
    stage.settle()
    _gone(stage)
    assert stage.moment("deleted") is None
    stage.compare("obj")


@pytest.mark.recording("s03-temporary")
def test_temporary_errors(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("first failure")
    stage.reaches("done")
    stage.compare("obj")


@pytest.mark.recording("s04-arbitrary-retries")
def test_arbitrary_errors(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("in progress")
    stage.reaches("done")
    stage.compare("obj")


@pytest.mark.recording("s06-two-handlers")
def test_several_handlers(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("done")
    stage.compare("obj")


@pytest.mark.recording("s07-subhandlers")
def test_subhandlers(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("in progress")
    stage.reaches("done")
    stage.compare("obj")


@pytest.mark.recording("s08-update-diff")
def test_updates(stage: Stage) -> None:
    stage.run()
    stage.create(labels={"a": "1"})
    stage.reaches("created")
    stage.settle()
    stage.merge(
        {
            "metadata": {"labels": {"a": None, "b": "2"}},
            "spec": {"field": "other", "extra": {"x": {"y": 1}}},
        }
    )
    stage.reaches("updated")
    stage.settle()
    stage.merge({"status": {"noise": 1}}, "status")
    stage.reaches("status only")
    stage.settle()
    stage.merge({"spec": {"field": None, "items": ["a", "b", "c"]}})
    stage.reaches("field removed")
    stage.compare("obj")


@pytest.mark.recording("s09-resume-downtime")
def test_resuming_after_downtime(stage: Stage) -> None:
    operator = stage.run()
    stage.create()
    stage.reaches("created")
    stage.settle()
    operator.stop()
    operator = stage.run()
    stage.reaches("resumed")
    stage.settle()
    operator.stop()
    stage.merge({"spec": {"field": "while-away"}})
    operator = stage.run()
    stage.reaches("updated and resumed")
    stage.settle()
    operator.stop()
    stage.run()
    stage.compare("obj")


@pytest.mark.recording("s11-timer-daemon")
def test_timers_and_daemons(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("running")
    stage.delete()
    stage.settle()

    # The order of concurrent handlers is an accident, and so are conflicts between them.
    def without_order(texts: list[str]) -> list[str]:
        repeatable = {text for text in texts if "the finalizer" in text}
        return sorted([*(text for text in texts if text not in repeatable), *repeatable])

    def texts(writes: list[likeness.Write]) -> list[str]:
        return [json.dumps(write, sort_keys=True) for write in writes if write.object == "obj"]

    assert without_order(texts(stage.writes())) == without_order(texts(stage.recorded_writes()))
    lines = likeness.main_lines(stage.lines(), "obj")
    recorded = likeness.main_lines(stage.recorded_lines(), "obj")
    assert without_order(lines) == without_order(recorded)


@pytest.mark.recording("s12-event-patch")
def test_patches_of_event_handlers(stage: Stage) -> None:
    stage.create(labels={"x": "y"})
    stage.run()
    stage.reaches("listed")
    stage.settle()
    stage.create("obj2")
    stage.reaches("added")
    stage.compare("obj", "obj2")


@pytest.mark.recording("s13-custom-storages")
def test_custom_storages(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("in progress")
    stage.reaches("done")
    stage.settle()
    _gone(stage)
    stage.compare("obj")


@pytest.mark.recording("s14-long-ids")
def test_long_ids(stage: Stage) -> None:
    stage.run()
    stage.create(spec={"field": "ä中😀", "m": 1000, "n": 1})
    # The recorded step "in progress" was taken too late: it is the same as "done".
    stage.reaches("done")
    stage.compare("obj")


@pytest.mark.recording("s16-k8s-events")
def test_k8s_events(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("done")
    stage.compare("obj", "events")


@pytest.mark.recording("s17-stealth-filters")
def test_filters(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.settle()
    stage.reaches("stealth")
    stage.merge({"metadata": {"labels": {"go": "yes"}}})
    stage.reaches("matched")
    stage.settle()
    stage.merge({"metadata": {"labels": {"go": None}}})
    stage.reaches("unmatched")
    stage.settle()
    stage.merge({"metadata": {"labels": {"go": "yes"}}})
    stage.reaches("matched again")
    stage.settle()
    _gone(stage)
    stage.compare("obj")
