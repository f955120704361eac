"""The historical path of calls of users' functions."""

from __future__ import annotations

from typing import Any

from kopf._front.causes import (
    context,
    Kwargable,
)

__all__ = [
    "context",
    "Kwargable",
]

_LAZY = {
    "invoke": "invocation",
    "is_async_fn": "invocation",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"kopf._front.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
