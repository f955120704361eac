"""The historical path of loggers."""

from __future__ import annotations

from typing import Any

from kopf._front.callbacks import (
    Logger,
)

__all__ = [
    "Logger",
]

_LAZY = {
    "LocalObjectLogger": "loggers",
    "LogFormat": "loggers",
    "ObjectFormatter": "loggers",
    "ObjectJsonFormatter": "loggers",
    "ObjectLogger": "loggers",
    "ObjectPrefixingJsonFormatter": "loggers",
    "ObjectPrefixingTextFormatter": "loggers",
    "ObjectTextFormatter": "loggers",
    "TerseObjectLogger": "loggers",
    "configure": "loggers",
    "logger": "loggers",
    "make_formatter": "loggers",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"kopf._front.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
