"""The historical path of errors of activities."""

from __future__ import annotations

from kopf._front.errors import (
    ActivityError,
)

__all__ = [
    "ActivityError",
]
