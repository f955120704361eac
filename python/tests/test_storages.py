"""Storages read and write objects as those of the original."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402
import storage_cases  # noqa: E402

RECORDED = cases.load("storages")

DIFFERENT: dict[str, list[str]] = {
    # Garbage in the status has no progress records.
    'sta.clear(essence={"status": "str"})': ["value", "{'status': 'str'}"],
}


@pytest.mark.parametrize("expression", storage_cases.EXPRESSIONS)
def test_operation_has_the_same_result(expression: str) -> None:
    actual = cases.evaluate(expression, storage_cases.namespace())
    assert actual == DIFFERENT.get(expression, RECORDED[expression])


def test_differences_are_real() -> None:
    for expression, outcome in DIFFERENT.items():
        assert RECORDED[expression] != outcome
