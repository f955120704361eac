"""The replay of the recording of several operators of one peering."""

from __future__ import annotations

import json
import re
from typing import Any

import golden_likeness as likeness
import pytest
from golden_fixtures import cluster, proxy, stage  # noqa: F401
from golden_stage import Operator, Stage, until

pytestmark = pytest.mark.native

_IDENTITY = re.compile(r"[\w.-]+@[\w.-]+/\d{14}/\w{3}")


def _numbered(value: Any) -> Any:
    """Returns the value without times, and with numbers instead of identities of operators."""
    known: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return known.setdefault(match[0], f"operator-{len(known)}")

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            # Identities are sorted by the start time of the operators.
            return {replaced(key): replaced(value[key]) for key in sorted(value)}
        if isinstance(value, list):
            return [replaced(item) for item in value]
        return _IDENTITY.sub(number, value) if isinstance(value, str) else value

    return likeness.scrubbed(replaced(value))


def _peers(stage: Stage) -> Any:
    found = stage.cluster.get("kopfpeerings.kopf.dev", "default", namespace=stage.namespace)
    return found.get("status") or {}


def _records(status: Any) -> list[Any]:
    """Returns the records without identities: operators that start in one second have no order."""
    records = [[_IDENTITY.sub("operator", key), value] for key, value in status.items()]
    return sorted(likeness.scrubbed(records), key=json.dumps)


def _reaches(stage: Stage, step: str) -> None:
    expected = _records(stage.moment(step, "peering") or {})
    until(f"{step}: {expected}", lambda: _records(_peers(stage)) == expected)


def _command(stage: Stage, name: str, *args: str) -> None:
    options = ["-n", stage.namespace, "--peering", "default", "--id", "me@here", *args]
    Operator(stage.folder / "commands.txt", stage.kubeconfig, name, *options).join()


def _peering_lines(lines: list[likeness.Line]) -> Any:
    texts = [
        f"{line.level}: {likeness.without_times(line.text)}"
        for line in lines
        if line.logger == "kopf._core.engines.p" and line.level != "DEBUG"
    ]
    return _numbered(texts)


def _without_list_of_all(texts: list[str]) -> set[str]:
    """Returns the different lines, without the peers of those that list all operators."""
    return {re.sub(r"(including self): \[.*", r"\1", text) for text in texts}


@pytest.mark.recording("p01-peering")
def test_peering(stage: Stage) -> None:  # noqa: F811
    peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}}
    stage.cluster.create(peering, namespace=stage.namespace)
    first = stage.run("--priority", "10")
    _reaches(stage, "first operator runs")
    stage.create()
    stage.reaches("handled by the first")

    second = stage.run("--dev", log="log.txt.dev")
    _reaches(stage, "second with --dev runs too")
    until("the pause", lambda: first.has_logged("Pausing operations in favour of"))
    stage.create("obj2")
    stage.reaches("handled by the second")
    second.stop()
    _reaches(stage, "second has exited")
    until("the end of the pause", lambda: first.has_logged("Resuming operations after the pause"))

    _command(stage, "freeze", "--lifetime", "60", "--priority", "100")
    _reaches(stage, "frozen")
    until("the pause", lambda: first.has_logged("Pausing operations in favour of", 2))
    stage.create("obj3")
    stage.settle()
    stage.reaches("not handled while frozen")
    _command(stage, "resume")
    _reaches(stage, "resumed")
    stage.reaches("handled after resuming")

    third = stage.run("--priority", "10", log="log.txt.equal")
    _reaches(stage, "third with equal priority")
    until("the conflict", lambda: first.has_logged("Pausing all operators, including self"))
    until("the conflict", lambda: third.has_logged("Pausing all operators, including self"))
    third.stop()
    until("the end of the pause", lambda: first.has_logged("Resuming operations after the pause", 3))
    first.stop()
    _reaches(stage, "all exited")

    stage.compare("obj", "obj2", "obj3", log=None)
    ours = [write for write in stage.writes() if write.object == "default"]
    theirs = [write for write in stage.recorded_writes() if write.object == "default"]
    assert _numbered([w.body for w in ours]) == _numbered([w.body for w in theirs])
    for log in ("log.txt", "log.txt.dev"):
        lines, recorded = stage.lines(log), stage.recorded_lines(log)
        assert _peering_lines(lines) == _peering_lines(recorded), log
        for name in ("obj", "obj2", "obj3"):
            assert likeness.main_lines(lines, name) == likeness.main_lines(recorded, name), log
    # The third one can see the peering before or after it adds its own record.
    log = "log.txt.equal"
    equal = _without_list_of_all(_peering_lines(stage.lines(log)))
    assert equal == _without_list_of_all(_peering_lines(stage.recorded_lines(log)))
    # An operator that is paused from the start handles nothing; the original starts resuming before it
    # has read the peering.
    assert not any(line.object for line in stage.lines("log.txt.equal"))
