"""Imports at the time of use: of modules that are slow to import, optional, or circular."""

from __future__ import annotations

import importlib
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
