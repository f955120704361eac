"""Common fixtures. Tests of the engine are in the modules that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kopf


@pytest.fixture()
def registry() -> Iterator[kopf.OperatorRegistry]:
    """A registry that is the default one for the duration of a test."""
    from kopf._front import registries

    former = registries._default_registry
    registry = kopf.OperatorRegistry()
    kopf.set_default_registry(registry)
    yield registry
    registries._default_registry = former
