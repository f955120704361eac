"""The historical path of running."""

from __future__ import annotations

from typing import Any


__all__ = [
]

_LAZY = {
    "operator": "running",
    "run": "running",
    "run_tasks": "running",
    "spawn_tasks": "running",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"kopf._front.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
