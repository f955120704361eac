"""Storages read and write objects like those of the original."""

from __future__ import annotations

import pathlib
import sys

import pytest

import kopf

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402
import storage_cases  # noqa: E402

RECORDED = cases.load("storages")

DIFFERENT: dict[str, list[str]] = {
    # Invalid data in the status has no progress records.
    'sta.clear(essence={"status": "str"})': ["value", "{'status': 'str'}"],
}


@pytest.mark.parametrize("expression", storage_cases.EXPRESSIONS)
def test_operation_has_the_same_result(expression: str) -> None:
    actual = cases.evaluate(expression, storage_cases.namespace())
    assert actual == DIFFERENT.get(expression, RECORDED[expression])


def test_listed_differences_exist() -> None:
    for expression, outcome in DIFFERENT.items():
        assert RECORDED[expression] != outcome


@pytest.mark.parametrize("prefix, key, v2, v1", [
    ("kopf.zalando.org", "create_fn", "create_fn", "create_fn"),
    ("kopf.zalando.org", "create_fn/spec.field", "create_fn.spec.field", "create_fn.spec.field"),
    ("kopf.zalando.org", "outer.<locals>.inner", "outer._locals_.inner", "outer._locals_.inner"),
    ("kopf.zalando.org", "a" * 46, "a" * 46, "a" * 46),
    ("kopf.zalando.org", "a" * 47, "a" * 47, "a" * 39 + "-L2I79Q"),
    ("kopf.zalando.org", "a" * 63, "a" * 63, "a" * 39 + "-LcrRHA"),
    ("kopf.zalando.org", "a" * 64, "a" * 56 + "-5Keq3A", "a" * 39 + "-5Keq3A"),
    ("kopf.zalando.org", "create_fn/" + "b" * 60,
     "create_fn." + "b" * 46 + "-HicFNw", "create_fn." + "b" * 29 + "-lUqu6A"),
    ("my-operator.example.com", "x" * 40, "x" * 40, "x" * 32 + "-tEokcg"),
    ("my-operator.example.com", "fn" * 323, "fn" * 28 + "-Az-r.g", "fn" * 16 + "-Az-r.g"),
])
def test_known_keys(prefix: str, key: str, v2: str, v1: str) -> None:
    storage = kopf.AnnotationsProgressStorage(prefix=prefix)
    assert storage.make_v2_key(key) == f"{prefix}/{v2}"
    assert storage.make_v1_key(key) == f"{prefix}/{v1}"


def test_known_record() -> None:
    record = kopf.ProgressRecord(
        started="2026-01-02T03:04:05.678901+00:00", stopped=None,
        delayed="2026-01-02T03:05:05.700000+00:00", purpose="create", retries=1, success=False,
        failure=False, message="not ready", subrefs=None)
    patch = kopf.Patch()
    kopf.SmartProgressStorage().store(
        key=kopf.HandlerId("create_fn"), record=record, body=kopf.Body({}), patch=patch)
    assert patch == {"metadata": {"annotations": {"kopf.zalando.org/create_fn": (
        '{"started":"2026-01-02T03:04:05.678901+00:00",'
        '"delayed":"2026-01-02T03:05:05.700000+00:00","purpose":"create","retries":1,'
        '"success":false,"failure":false,"message":"not ready"}'
    )}}}


def test_known_essence() -> None:
    body = kopf.Body({"apiVersion": "v1", "kind": "K", "spec": {"field": "value"},
                      "metadata": {"name": "n", "labels": {"a": "b"}}})
    storage, patch = kopf.AnnotationsDiffBaseStorage(), kopf.Patch()
    storage.store(body=body, patch=patch, essence=storage.build(body=body))
    assert patch == {"metadata": {"annotations": {
        "kopf.zalando.org/last-handled-configuration":
            '{"spec":{"field":"value"},"metadata":{"labels":{"a":"b"}}}\n',
    }}}
