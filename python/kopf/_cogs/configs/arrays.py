"""The historical path of :mod:`kopf._front.arrays`."""

from __future__ import annotations

from kopf._front.arrays import (
    SelectorKey,
    SelectorMapping,
    VT,
)

__all__ = [
    "SelectorKey",
    "SelectorMapping",
    "VT",
]
