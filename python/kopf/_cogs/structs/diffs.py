"""The historical path of :mod:`kopf._front.diffs`."""

from __future__ import annotations

from kopf._front.diffs import (
    Diff,
    diff,
    diff_iter,
    DiffItem,
    DiffOperation,
    DiffScope,
    EMPTY,
    reduce,
    reduce_iter,
)

__all__ = [
    "Diff",
    "diff",
    "diff_iter",
    "DiffItem",
    "DiffOperation",
    "DiffScope",
    "EMPTY",
    "reduce",
    "reduce_iter",
]
