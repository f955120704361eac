"""The historical path of :mod:`kopf._front.filters`."""

from __future__ import annotations

from kopf._front.filters import (
    ABSENT,
    MetaFilter,
    MetaFilterToken,
    PRESENT,
    ValueFilter,
)

__all__ = [
    "ABSENT",
    "MetaFilter",
    "MetaFilterToken",
    "PRESENT",
    "ValueFilter",
]
