"""The historical path of sub-handlers."""

from __future__ import annotations

from typing import Any

from kopf._front.registries import (
    subregistry_var,
)

__all__ = [
    "subregistry_var",
]

_LAZY = {
    "execute": "execution",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"kopf._front.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
