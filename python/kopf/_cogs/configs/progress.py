"""The historical path of :mod:`kopf._front.progress`."""

from __future__ import annotations

from kopf._front.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    NoWriteStatusProgressStorage,
    ProgressRecord,
    ProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
)

__all__ = [
    "AnnotationsProgressStorage",
    "MultiProgressStorage",
    "NoWriteStatusProgressStorage",
    "ProgressRecord",
    "ProgressStorage",
    "SmartProgressStorage",
    "StatusProgressStorage",
]
