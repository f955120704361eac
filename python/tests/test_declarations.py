"""Decorators register handlers, reject options, and filter as in the original."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402
import declaration_cases  # noqa: E402

RECORDED = cases.load("declarations")

DIFFERENT: dict[str, list[str]] = {
    # A decorator without parentheses: the original never calls the function.
    'declare("create", fn)': ["raises", "TypeError"],
}


@pytest.mark.parametrize("expression", declaration_cases.EXPRESSIONS)
def test_operation_has_the_same_result(expression: str) -> None:
    actual = cases.evaluate(expression, declaration_cases.namespace())
    if actual[1] == "ModuleNotFoundError":
        pytest.skip("not built")
    assert actual == DIFFERENT.get(expression, RECORDED[expression])


def test_listed_differences_exist() -> None:
    for expression, outcome in DIFFERENT.items():
        assert RECORDED[expression] != outcome
