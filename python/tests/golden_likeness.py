"""The comparable part of writes, objects and logs, without values that vary between runs.

As defined in `tests/golden/README.md`, times, uids, resource versions, names of namespaces, rejected
writes and touch writes are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

_ACCIDENTAL = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "namespace",
    "apiVersion",
    "dummy",
}
# The recordings have no attempted essences: the original loses such changes.
_ADDITIONS = ("/touch-dummy", "/attempted-essences")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_LINE = re.compile(
    r"\[[^\]]+\] (?P<logger>\S+) +\[(?P<level>\w+) *\] (?:\[[^/\]]+/(?P<name>[^\]]+)\] )?(?P<text>.*)"
)


class Write(NamedTuple):
    """An accepted write."""

    object: str
    subresource: str
    body: Any


class Line(NamedTuple):
    """A line of the log; `object` is empty for those of the operator."""

    logger: str
    level: str
    object: str
    text: str


def of_write(resource: str, name: str, subresource: str, status: int, body: Any) -> Write | None:
    """Returns the comparable part of a write; `None` for rejected and touch writes."""
    if not 200 <= status < 300:
        return None
    body = scrubbed(body)
    if isinstance(body, dict):
        # The audit log contains the kind even if the client did not send it.
        body.pop("kind", None)
        _drop_empty(body)
        if not body:
            return None
    return Write("events" if resource == "events" else name, subresource, body)


def of_object(body: Any) -> Any:
    """Returns the comparable part of an object; `None` stands for absent objects."""
    body = scrubbed(body)
    # Touching leaves an empty mapping in the status.
    if isinstance(body, dict) and (body.get("status") or {}).get("kopf") == {}:
        del body["status"]["kopf"]
    return body


def parsed(log: str) -> list[Line]:
    """Returns the lines of a log in the full format, without tracebacks."""
    matches = filter(None, map(_LINE.fullmatch, log.splitlines()))
    return [Line(m["logger"], m["level"], m["name"] or "", m["text"]) for m in matches]


def main_lines(lines: Iterable[Line], name: str) -> list[str]:
    """Returns the main lines about an object, as `LEVEL: message`."""
    kept: list[str] = []
    for line in lines:
        message = _main_message(line.text) if line.object == name else None
        text = f"{line.level}: {message}"
        # The number of cycles of a waiting object varies.
        if message is None or (text.endswith("is in progress") and kept[-1:] == [text]):
            continue
        kept.append(text)
    return kept


def scrubbed(value: Any) -> Any:
    """Returns a copy without times, identities and touches."""
    if isinstance(value, dict):
        return {
            key: scrubbed(item)
            for key, item in value.items()
            if key not in _ACCIDENTAL and not key.endswith(_ADDITIONS)
        }
    if isinstance(value, list):
        # The tests in a JSON-patch.
        is_test = [isinstance(item, dict) and item.get("op") == "test" for item in value]
        return [_scrubbed_item(item) for item, left_out in zip(value, is_test) if not left_out]
    if isinstance(value, str):
        return _scrubbed_text(value)
    return value


def _scrubbed_item(item: Any) -> Any:
    # The original removes the only finalizer with the list; Kopf removes it by its position.
    item = scrubbed(item)
    if isinstance(item, dict) and item.get("op") == "remove":
        item["path"] = re.sub(r"^(/metadata/finalizers)/\d+$", r"\1", item["path"])
    return item


def _scrubbed_text(text: str) -> Any:
    # Progress records are compared as text, including the order of fields. In other JSON, the order
    # is ignored.
    if text.startswith('{"started":'):
        return without_times(text)
    if text.startswith("{"):
        return {"json": json.loads(text), "end": text.endswith("\n")}
    return "TIME" if _TIME.fullmatch(text) else text


def without_times(text: str) -> str:
    """Returns the text with all times replaced."""
    return _TIME.sub("TIME", text)


def _main_message(message: str) -> str | None:
    beginning, found, _ = message.partition(" is in progress: ")
    if found:
        return f"{beginning} is in progress"
    is_main = (
        message.startswith(("Handler '", "Daemon '", "Timer '", "Webhook '"))
        or " is processed: " in message
        or "the finalizer" in message
        or message.startswith("Deleted, really deleted")
    )
    return message if is_main else None


def _drop_empty(patch: dict[str, Any]) -> None:
    """Removes empty mappings, which touch writes leave."""
    for parent in ("metadata", "status"):
        inner = patch.get(parent)
        if not isinstance(inner, dict):
            continue
        for key in ("annotations", "kopf"):
            if inner.get(key) == {}:
                del inner[key]
        if not inner:
            del patch[parent]
