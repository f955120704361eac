"""The historical path of :mod:`kopf._front.patches`."""

from __future__ import annotations

from kopf._front.patches import (
    JSONPatchItem,
    JSONPatchOp,
    MetaPatch,
    Patch,
    PatchFn,
    SpecPatch,
    StatusPatch,
)

__all__ = [
    "JSONPatchItem",
    "JSONPatchOp",
    "MetaPatch",
    "Patch",
    "PatchFn",
    "SpecPatch",
    "StatusPatch",
]
