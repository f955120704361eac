"""Arguments of handlers behave like those of the original, operation by operation."""

from __future__ import annotations

import copy
import pathlib
import sys
from collections.abc import Callable

import pytest

import kopf

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402
import view_cases  # noqa: E402

RECORDED = cases.load("views")

# Operations that fail in the original but not here, or that are stricter here.
DIFFERENT: dict[str, list[str]] = {
    # A null is the same as a missing field.
    'kopf.Body({"spec": None}).spec': ["value", "{}"],
    'dict(kopf.Body({"spec": None}).spec)': ["value", "{}"],
    'kopf.Body({"metadata": {"labels": None}}).meta.labels.get("a")': ["value", "None"],
    # A string is not a sequence of keys.
    'list(kopf.Body({"spec": "str"}).spec)': ["raises", "TypeError"],
    # Unknown settings are noticed, and there are more known ones.
    "s = kopf.OperatorSettings(); s.posting.unknown = 1; result = s.posting.unknown": [
        "value", "1", "UserWarning",
    ],
    "dataclasses.asdict(kopf.OperatorSettings().peering)": [
        "value",
        "{'name': 'default', 'stealth': False, 'priority': 0, 'lifetime': 60, 'mandatory': False, "
        "'standalone': False, 'clusterwide': False, 'sharing': False}",
    ],
}


@pytest.mark.parametrize("expression", view_cases.EXPRESSIONS)
def test_operation_has_the_same_result(expression: str) -> None:
    actual = cases.evaluate(expression, view_cases.namespace())
    assert actual == DIFFERENT.get(expression, RECORDED[expression])


def test_listed_differences_exist() -> None:
    for expression, outcome in DIFFERENT.items():
        assert RECORDED[expression] != outcome


def test_live_views_follow_the_object() -> None:
    versions = [{"spec": {"x": 1}}, {"spec": {"x": 2}, "metadata": {"labels": {"a": "b"}}}]
    body = kopf.Body(lambda: versions[0])
    spec, labels = body.spec, body.meta.labels
    assert (spec["x"], dict(labels), body.meta.name) == (1, {}, None)
    del versions[0]
    assert (spec["x"], dict(labels)) == (2, {"a": "b"})
    assert dict(body) == versions[0]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy])
def test_copies_of_live_views_do_not_follow_the_object(
    duplicate: Callable[[kopf.Body], kopf.Body],
) -> None:
    versions = [{"spec": {"x": 1}}, {"spec": {"x": 2}}]
    body = kopf.Body(lambda: versions[0])
    copied = duplicate(body)
    del versions[0]
    assert copied.spec["x"] == 1
    assert body.spec["x"] == 2


def test_live_body_is_replaced_by_another() -> None:
    body = kopf.Body({"spec": {"x": 1}})
    spec = body.spec
    body._replace_with({"spec": {"x": 2}})
    assert spec["x"] == 2
    body._replace_from(kopf.Body({"spec": {"x": 3}}))
    assert spec["x"] == 3
