"""The historical path of identities."""

from __future__ import annotations

from kopf._front.identities import (
    detect_own_id,
    Identity,
)

__all__ = [
    "detect_own_id",
    "Identity",
]
