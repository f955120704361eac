"""The historical path of calls of users' functions."""

from __future__ import annotations

from kopf._front.causes import (
    context,
    Kwargable,
)
from kopf._front.invoking import (
    invoke,
    is_async_fn,
)

__all__ = [
    "context",
    "invoke",
    "is_async_fn",
    "Kwargable",
]
