"""Children of objects are adopted as in the original."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402
import hierarchy_cases  # noqa: E402

RECORDED = cases.load("hierarchies")

DIFFERENT: dict[str, list[str]] = {
    "run(label, {}, None)": ["raises", "TypeError"],
}


@pytest.mark.parametrize("expression", hierarchy_cases.EXPRESSIONS)
def test_operation_has_the_same_result(expression: str) -> None:
    if hierarchy_cases.kc is None and ("kc." in expression or "pykube." in expression):
        pytest.skip("client libraries are not installed")
    if "kc." in expression and "block_owner_deletion=None" in expression:
        pytest.skip("fails in the original")
    actual = cases.evaluate(expression, hierarchy_cases.namespace())
    assert actual == DIFFERENT.get(expression, RECORDED[expression])


def test_listed_differences_exist() -> None:
    for expression, outcome in DIFFERENT.items():
        assert RECORDED[expression] != outcome
