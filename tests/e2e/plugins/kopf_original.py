"""A pytest plugin with the fixtures of the original's root conftest that its e2e tests use.

That conftest itself cannot be used: it imports internals of the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kopf


@pytest.fixture
def settings() -> kopf.OperatorSettings:
    """Default settings."""
    return kopf.OperatorSettings()


@pytest.fixture
def registry_factory() -> type[kopf.OperatorRegistry]:
    """The class of registries with the default logins."""
    from kopf._core.intents.registries import SmartOperatorRegistry

    return SmartOperatorRegistry


@pytest.fixture(autouse=True)
def registry(registry_factory: Any) -> Iterator[kopf.OperatorRegistry]:
    """An own default registry for each test: the examples use the same names of handlers."""
    former = kopf.get_default_registry()
    new = registry_factory()
    kopf.set_default_registry(new)
    yield new
    kopf.set_default_registry(former)


@pytest.fixture(autouse=True)
def clean_kubernetes_client() -> Iterator[None]:
    """Resets the global configuration of the `kubernetes` package, which logins set."""
    yield
    try:
        import kubernetes
    except ImportError:
        return
    kubernetes.client.configuration.Configuration.set_default(None)
