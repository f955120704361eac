"""Replays of the recordings of the original: the same operators, run by this package.

The recorded `operator.py` files run unmodified; the writes, the objects at every recorded step, and
the main log lines must be the same. Decisions of this project are left out: no touch writes, the
annotation for changes during handling, log records as k8s-events by default.
With `KOPF_TEST_KUBECONFIG`, they run on that cluster instead of a sandbox.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import golden_likeness as likeness
import pytest
from golden_fixtures import cluster, proxy  # noqa: F401
from golden_proxy import RecordingProxy
from golden_stage import Stage, staged, until

from kopf.testing import ClusterClient

pytestmark = pytest.mark.native

Play = Callable[[Stage], None]
_PLAYS: dict[str, Play] = {}


def play(recording: str) -> Callable[[Play], Play]:
    """Declares the steps of a recording."""

    def declare(fn: Play) -> Play:
        _PLAYS[recording] = fn
        return fn

    return declare


def _gone(stage: Stage) -> None:
    stage.delete()
    until("the deletion is noticed", lambda: "Deleted, really deleted" in _log(stage))


def _log(stage: Stage) -> str:
    return (stage.folder / "log.txt").read_text()


@play("s01-create-result")
def create_result(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("created")
    stage.settle()
    _gone(stage)
    stage.compare("obj")


@play("s02-finalizer")
def finalizer(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("created")
    stage.settle()
    _gone(stage)
    assert stage.moment("deleted") is None
    stage.compare("obj")


@play("s03-temporary")
def temporary_errors(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("first failure")
    stage.reaches("done")
    stage.compare("obj")


@play("s04-arbitrary-retries")
def arbitrary_errors(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("in progress")
    stage.reaches("done")
    stage.compare("obj")


@play("s06-two-handlers")
def several_handlers(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("done")
    stage.compare("obj")


@play("s07-subhandlers")
def subhandlers(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("in progress")
    stage.reaches("done")
    stage.compare("obj")


@play("s08-update-diff")
def updates(stage: Stage) -> None:
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


@play("s09-resume-downtime")
def resuming_after_downtime(stage: Stage) -> None:
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


@play("s11-timer-daemon")
def timers_and_daemons(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("running")
    stage.delete()
    stage.settle()

    # The order of concurrent handlers and conflicts between them vary.
    def without_order(texts: list[str]) -> list[str]:
        repeatable = {text for text in texts if "the finalizer" in text}
        return sorted([*(text for text in texts if text not in repeatable), *repeatable])

    # On a loaded machine, the object is deleted later.
    def is_late(write: likeness.Write) -> bool:
        return write.subresource == "status" and write.body["status"].get("ticks", 0) > 4

    def texts(writes: list[likeness.Write]) -> list[str]:
        kept = [write for write in writes if write.object == "obj" and not is_late(write)]
        return [json.dumps(write, sort_keys=True) for write in kept]

    assert without_order(texts(stage.writes())) == without_order(texts(stage.recorded_writes()))
    lines = likeness.main_lines(stage.lines(), "obj")
    recorded = likeness.main_lines(stage.recorded_lines(), "obj")
    for text in ("DEBUG: Timer 'tick' is invoked.", "INFO: Timer 'tick' succeeded."):
        assert recorded.count(text) == 4
        while lines.count(text) > 4:
            lines.remove(text)
    assert without_order(lines) == without_order(recorded)


@play("s12-event-patch")
def patches_of_event_handlers(stage: Stage) -> None:
    stage.create(labels={"x": "y"})
    stage.run()
    stage.reaches("listed")
    stage.settle()
    stage.create("obj2")
    stage.reaches("added")
    stage.compare("obj", "obj2")


@play("s13-custom-storages")
def custom_storages(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("in progress")
    stage.reaches("done")
    stage.settle()
    _gone(stage)
    stage.compare("obj")


@play("s14-long-ids")
def long_ids(stage: Stage) -> None:
    stage.run()
    stage.create(spec={"field": "ä中😀", "m": 1000, "n": 1})
    # The recorded step "in progress" was taken too late: it is the same as "done".
    stage.reaches("done")
    stage.compare("obj")


@play("s16-k8s-events")
def k8s_events(stage: Stage) -> None:
    stage.run()
    stage.create()
    stage.reaches("done")
    stage.compare("obj", "events")


@play("s17-stealth-filters")
def filters(stage: Stage) -> None:
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


@pytest.fixture(scope="module")
def replays(
    request: pytest.FixtureRequest,
    cluster: ClusterClient,  # noqa: F811
    proxy: RecordingProxy,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[None]]]:
    """The selected replays. They mostly wait, so several run concurrently."""

    def replay(recording: str, folder: pathlib.Path) -> None:
        with staged(recording, cluster, proxy, folder) as stage:
            _PLAYS[recording](stage)

    selected = [
        recording
        for recording in _PLAYS
        if any(item.name == f"test_replay[{recording}]" for item in request.session.items)
    ]
    with ThreadPoolExecutor(4) as pool:
        yield {name: pool.submit(replay, name, tmp_path_factory.mktemp(name)) for name in selected}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("recording", _PLAYS)
def test_replay(recording: str, replays: dict[str, Future[None]]) -> None:
    replays[recording].result()
