"""The historical path of the event loop of the command line."""

from __future__ import annotations

from kopf._front.loops import (
    proper_loop,
)

__all__ = [
    "proper_loop",
]
