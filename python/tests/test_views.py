"""Objects of handlers behave as those of the original, operation by operation."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402
import view_cases  # noqa: E402

RECORDED = cases.load("views")

# Operations that fail in the original and work here, or that are stricter here.
DIFFERENT: dict[str, list[str]] = {
    # A null is the same as an absent field.
    'kopf.Body({"spec": None}).spec': ["value", "{}"],
    'dict(kopf.Body({"spec": None}).spec)': ["value", "{}"],
    'kopf.Body({"metadata": {"labels": None}}).meta.labels.get("a")': ["value", "None"],
    # A string is not a sequence of keys.
    'list(kopf.Body({"spec": "str"}).spec)': ["raises", "TypeError"],
}


@pytest.mark.parametrize("expression", view_cases.EXPRESSIONS)
def test_operation_has_the_same_result(expression: str) -> None:
    actual = cases.evaluate(expression, view_cases.namespace())
    assert actual == DIFFERENT.get(expression, RECORDED[expression])


def test_differences_are_real() -> None:
    for expression, outcome in DIFFERENT.items():
        assert RECORDED[expression] != outcome
