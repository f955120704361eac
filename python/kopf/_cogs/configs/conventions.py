"""The historical path of :mod:`kopf._front.conventions`."""

from __future__ import annotations

from kopf._front.conventions import (
    CollisionEvadingConvention,
    StorageKeyFormingConvention,
    StorageKeyMarkingConvention,
    StorageStanzaCleaner,
)

__all__ = [
    "CollisionEvadingConvention",
    "StorageKeyFormingConvention",
    "StorageKeyMarkingConvention",
    "StorageStanzaCleaner",
]
