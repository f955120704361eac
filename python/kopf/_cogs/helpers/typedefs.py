"""The historical path of types."""

from __future__ import annotations

from kopf._front.callbacks import (
    Logger,
)

__all__ = [
    "Logger",
]
