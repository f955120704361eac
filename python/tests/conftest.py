"""Fixtures of all tests of the Python package."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Iterator

import pytest

import kopf
from behaviour import behaviour_cluster, records, stage  # noqa: F401


def _has_native() -> bool:
    try:
        return importlib.util.find_spec("kopf._kopf") is not None
    except ImportError:
        return False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that need the extension if it is not built, unless it is required."""
    if _has_native() or os.environ.get("KOPF_TEST_NATIVE"):
        return
    skip = pytest.mark.skip(reason="the extension kopf._kopf is not built: run `maturin develop`")
    for item in items:
        if "native" in getattr(item, "fixturenames", ()) or item.get_closest_marker("native"):
            item.add_marker(skip)


@pytest.fixture
def native() -> object:
    """The extension; tests with this fixture are skipped if it is not built."""
    return importlib.import_module("kopf._kopf")


@pytest.fixture
def clean_logging() -> Iterator[None]:
    """Restores the global state of logging after the test."""
    root, asyncio_logger = logging.getLogger(), logging.getLogger("asyncio")
    handlers, level = root.handlers[:], root.level
    asyncio_handlers, propagate = asyncio_logger.handlers[:], asyncio_logger.propagate
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    asyncio_logger.handlers[:] = asyncio_handlers
    asyncio_logger.propagate = propagate


@pytest.fixture
def clean_imports() -> Iterator[None]:
    """Removes the modules and import paths that the test adds."""
    path, modules = sys.path[:], set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("__kopf_script_"):
            del sys.modules[name]


@pytest.fixture
def default_registry() -> Iterator[object]:
    """A default registry for one test."""
    from kopf._front.declare import registries

    former = registries.get_default_registry()
    registry = registries.OperatorRegistry()
    registries.set_default_registry(registry)
    yield registry
    registries.set_default_registry(former)


@pytest.fixture()
def registry() -> Iterator[kopf.OperatorRegistry]:
    """A registry that is the default one for the duration of a test."""
    from kopf._front.declare import registries

    former = registries._default_registry
    registry = kopf.OperatorRegistry()
    kopf.set_default_registry(registry)
    yield registry
    registries._default_registry = former
