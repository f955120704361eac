"""Imports on first use, for modules that are slow to import, optional, or circular."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def optional(module: str) -> Any | None:
    """Returns a module of another package, or ``None`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def current() -> Any:
    """Returns the module that gives access to the current call."""
    return importlib.import_module("kopf._front.current")


def submodules(package: str) -> Callable[[str], Any]:
    """Returns ``__getattr__`` of a package that imports its modules on first use.

    The original imports everything eagerly, so that modules such as
    ``kopf._core.actions.execution`` are accessible after ``import kopf``.
    """
    def getter(name: str) -> Any:
        path = f"{package}.{name}"
        if not name.startswith("__"):
            try:
                return importlib.import_module(path)
            except ModuleNotFoundError as e:
                if e.name != path:
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getter
