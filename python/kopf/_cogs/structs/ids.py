"""The historical path of handler ids."""

from __future__ import annotations

from kopf._front.ids import (
    HandlerId,
)

__all__ = [
    "HandlerId",
]
