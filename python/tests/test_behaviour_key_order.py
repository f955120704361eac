"""The order of keys in bodies: as the server sends it.

Real API servers send the keys of built-in resources in the order of their types. The sandbox sorts all
keys, so a proxy reverses them.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import aiohttp.web
import pytest
import yaml

import kopf
from behaviour import Stage, until
from golden_proxy import RecordingProxy, _end_to_end

pytestmark = pytest.mark.native

SPEC = {"a": {"x": 1, "y": [{"p": 1, "q": 2}]}, "b": 2, "c": {"z": 0, "w": {}}}
LABELS = {"l1": "1", "l2": "2"}


def reversed_keys(value: Any) -> Any:
    """Returns the value with all keys in reversed order."""
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in sorted(value, reverse=True)}
    if isinstance(value, list):
        return [reversed_keys(item) for item in value]
    return value


class ReversingProxy(RecordingProxy):
    """Forwards all requests, and reverses the keys of all responses."""

    async def _forward(self, request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        payload = await request.read()
        async with self._session.request(
            request.method,
            self._url + request.raw_path,
            headers=_end_to_end(request.headers),
            data=payload or None,
        ) as upstream:
            response = aiohttp.web.StreamResponse(
                status=upstream.status, headers=_end_to_end(upstream.headers)
            )
            await response.prepare(request)
            rest = b""
            async for chunk in upstream.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    await response.write(self._reverse(line, "watch" in request.query) + b"\n")
            if rest:
                await response.write(self._reverse(rest, False))
            await response.write_eof()
            return response

    def _reverse(self, line: bytes, is_event: bool) -> bytes:
        value = json.loads(line)
        if is_event:  # the type is the first field of all servers
            value = {"type": value["type"], "object": reversed_keys(value["object"])}
        else:
            value = reversed_keys(value)
        return json.dumps(value, separators=(",", ":")).encode()


@pytest.fixture
def reversing(
    stage: Stage, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stage]:
    """The stage with a server that sends all keys in reversed order."""
    with ReversingProxy(stage.cluster) as proxy:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(proxy.kubeconfig))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield stage


def text(value: Any) -> str:
    """Returns the value as operators dump it."""
    return json.dumps(value, default=dict)


def test_bodies_have_the_order_of_the_server(reversing: Stage) -> None:
    seen: dict[str, Any] = {}

    @kopf.index("kopfexamples", id="indexed")
    def indexed(body: Any, **_: Any) -> Any:
        return {"body": text(dict(body))}

    @kopf.on.event("kopfexamples")
    def event(event: Any, indexed: Any, **_: Any) -> None:
        seen["event"] = text(event["object"])
        seen["index"] = next(iter(indexed["body"]))

    @kopf.on.create("kopfexamples", when=lambda body, **_: bool(seen.setdefault("when", text(body))))
    def create(body: Any, spec: Any, meta: Any, labels: Any, new: Any, diff: Any, **_: Any) -> None:
        seen["body"], seen["spec"], seen["labels"] = text(body), text(spec), text(labels)
        seen["meta"], seen["new"] = text(meta), text(new)
        seen["diff"] = {item.field: text(item.new) for item in diff}

    @kopf.on.create("kopfexamples", field="spec.a")
    def field(new: Any, **_: Any) -> None:
        seen["field"] = text(new)

    @kopf.timer("kopfexamples", interval=60)
    def timer(body: Any, **_: Any) -> None:
        seen["timer"] = text(body)

    with reversing.operator():
        name = reversing.create(SPEC, labels=LABELS)
        reversing.handled(name)
        until(lambda: "timer" in seen)

    spec, labels = text(reversed_keys(SPEC)), text(reversed_keys(LABELS))
    assert (seen["spec"], seen["labels"]) == (spec, labels)
    for place in ("when", "body", "timer", "event", "index"):
        body = json.loads(seen[place])
        assert seen[place] == text(reversed_keys(body)), place
    assert json.loads(seen["body"])["metadata"]["managedFields"]
    # As in the original: the metadata are added last, and labels before annotations.
    assert seen["new"] == f'{{"spec": {spec}, "metadata": {{"labels": {labels}}}}}'
    assert seen["diff"] == {(): seen["new"]}
    assert seen["field"] == text(reversed_keys(SPEC["a"]))


def test_old_states_have_the_stored_order(reversing: Stage) -> None:
    seen: list[Any] = []

    @kopf.on.create("kopfexamples")
    def create(**_: Any) -> None:
        pass

    @kopf.on.update("kopfexamples")
    def update(old: Any, new: Any, diff: Any, **_: Any) -> None:
        item = diff[0]
        seen.append((text(old), text(new), text(item.old), text(item.new)))

    key = "kopf.zalando.org/last-handled-configuration"
    with reversing.operator():
        name = reversing.create(SPEC)
        stored = reversing.handled(name)["metadata"]["annotations"][key]
        # The same text as that of the original, for custom resources and their sorted keys as well.
        assert stored == json.dumps(reversed_keys({"spec": SPEC}), separators=(",", ":")) + "\n"
        added = {"n": 1, "m": 2}
        reversing.patch(name, {"spec": {"b": added}})
        until(lambda: seen)
        # Operators of other languages or versions store the keys in another order.
        other = json.dumps({"spec": {"b": {"m": 0}, "a": SPEC["a"], "c": {"w": {}}}}) + "\n"
        reversing.patch(name, {"metadata": {"annotations": {key: other}}})
        until(lambda: len(seen) > 1)

    after = reversed_keys({**SPEC, "b": added})
    old, new, item_old, item_new = seen[0]
    assert (old, new) == (text({"spec": reversed_keys(SPEC)}), text({"spec": after}))
    assert (item_old, item_new) == ("2", text(reversed_keys(added)))
    assert seen[1][0] == other.strip()


def test_applied_children_have_the_order_of_the_server(reversing: Stage) -> None:
    seen: list[str] = []

    @kopf.on.create("kopfexamples")
    async def create(**_: Any) -> None:
        for _number in range(2):  # written, then unchanged
            child = await kopf.apply_child(
                {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2"}})
            seen.append(text(child.object))

    with reversing.operator():
        reversing.handled(reversing.create())
    for child in seen:
        assert child == text(reversed_keys(json.loads(child)))
    assert len(seen) == 2


def test_children_are_passed_in_the_order_of_the_server(reversing: Stage) -> None:
    seen: list[str] = []

    @kopf.on.create("kopfexamples")
    def create(**_: Any) -> None:
        kopf.apply_child({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2"}})

    @kopf.on.child("configmaps", parent="kopfexamples")
    def child(child: Any, **_: Any) -> None:
        seen.append(text(child))

    with reversing.operator():
        reversing.create()
        until(lambda: seen)
    assert seen[0] == text(reversed_keys(json.loads(seen[0])))
