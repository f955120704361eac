"""JSON patches (RFC 6902): the operations that turn one value into another."""

from __future__ import annotations

from typing import Any


def compare(before: Any, after: Any) -> list[dict[str, Any]]:
    """Returns the operations that turn the first value into the second one."""
    ops: list[dict[str, Any]] = []
    _compare(before, after, "", ops)
    return ops


def _compare(before: Any, after: Any, path: str, ops: list[dict[str, Any]]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        _compare_dicts(before, after, path, ops)
    elif isinstance(before, list) and isinstance(after, list):
        _compare_lists(before, after, path, ops)
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        ops.append({"op": "replace", "path": path, "value": after})


def _compare_dicts(
    before: dict[str, Any], after: dict[str, Any], path: str, ops: list[dict[str, Any]],
) -> None:
    for key in before:
        if key not in after:
            ops.append({"op": "remove", "path": f"{path}/{_escape(key)}"})
    for key, value in after.items():
        if key not in before:
            ops.append({"op": "add", "path": f"{path}/{_escape(key)}", "value": value})
        else:
            _compare(before[key], value, f"{path}/{_escape(key)}", ops)


def _compare_lists(
    before: list[Any], after: list[Any], path: str, ops: list[dict[str, Any]],
) -> None:
    # Equal heads and tails are skipped, so that an insertion or a removal is one operation.
    limit = min(len(before), len(after))
    head = 0
    while head < limit and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < limit - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head:len(before) - tail], after[head:len(after) - tail]
    common = min(len(old), len(new))
    for index in range(common):
        _compare(old[index], new[index], f"{path}/{head + index}", ops)
    for index in range(len(old) - 1, common - 1, -1):
        ops.append({"op": "remove", "path": f"{path}/{head + index}"})
    for index in range(common, len(new)):
        ops.append({"op": "add", "path": f"{path}/{head + index}", "value": new[index]})


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
