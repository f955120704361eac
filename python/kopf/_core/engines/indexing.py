"""The historical path of writable indices."""

from __future__ import annotations

from kopf._front.ephemera import (
    OperatorIndexer,
    OperatorIndexers,
    OperatorIndices,
)

__all__ = [
    "OperatorIndexer",
    "OperatorIndexers",
    "OperatorIndices",
]
