"""The historical path of :mod:`kopf._front.diffbase`."""

from __future__ import annotations

from kopf._front.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)

__all__ = [
    "AnnotationsDiffBaseStorage",
    "DiffBaseStorage",
    "MultiDiffBaseStorage",
    "StatusDiffBaseStorage",
]
