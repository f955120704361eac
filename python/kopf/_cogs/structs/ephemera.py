"""The historical path of memos and indices."""

from __future__ import annotations

from kopf._front.ephemera import (
    AnyMemo,
    Index,
    Memo,
    Store,
)

__all__ = [
    "AnyMemo",
    "Index",
    "Memo",
    "Store",
]
