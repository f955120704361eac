"""Errors, results and patches that are too large to be stored."""

from __future__ import annotations

from typing import Any

import pytest

import kopf
from behaviour import Stage

pytestmark = pytest.mark.native

HANDLED = "kopf.zalando.org/last-handled-configuration"


def is_handled(obj: Any) -> bool:
    return HANDLED in obj["metadata"].get("annotations", {})


@pytest.mark.parametrize("size", [300_000, 3_000_000])
def test_long_errors_are_retried_as_declared(stage: Stage, size: int) -> None:
    calls: list[int] = []

    @kopf.on.create("kopfexamples", id="create_fn", retries=3, backoff=0.1)
    def create_fn(retry: int, **_: Any) -> None:
        calls.append(retry)
        raise RuntimeError("x" * size)

    @kopf.on.update("kopfexamples", id="update_fn")
    def update_fn(**_: Any) -> str:
        return "updated"

    with stage.operator():
        name = stage.create({})
        stage.wait(name, is_handled)
        assert calls == [0, 1, 2]
        stage.patch(name, {"spec": {"field": 1}})
        stage.wait(name, lambda obj: obj.get("status", {}).get("update_fn"))


@pytest.mark.parametrize("size", [1_700_000, 5_000_000])
@pytest.mark.parametrize("into", ["result", "patch", "function"])
def test_large_results_and_patches_do_not_block(stage: Stage, size: int, into: str) -> None:
    calls: list[str] = []

    @kopf.on.create("kopfexamples", id="create_fn")
    async def create_fn(patch: kopf.Patch, **_: Any) -> str | None:
        calls.append("create")
        text = "x" * size
        if into == "result":
            return text
        if into == "patch":
            patch.spec["big"] = text
        else:
            patch.fns.append(lambda body: body["spec"].update(big=text))
        return None

    @kopf.on.update("kopfexamples", id="update_fn")
    def update_fn(**_: Any) -> str:
        return "updated"

    @kopf.on.delete("kopfexamples", id="delete_fn")
    def delete_fn(**_: Any) -> None:
        calls.append("delete")

    with stage.operator():
        name = stage.create({})
        stage.wait(name, is_handled)
        stage.patch(name, {"spec": {"field": 1}})
        obj = stage.wait(name, lambda obj: obj.get("status", {}).get("update_fn"))
        assert "big" not in obj["spec"] and "create_fn" not in obj["status"]
        stage.delete(name)
        stage.gone(name)
        assert calls == ["create", "delete"]
