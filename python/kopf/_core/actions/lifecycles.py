"""The historical path of :mod:`kopf._front.lifecycles`."""

from __future__ import annotations

from kopf._front.lifecycles import (
    all_at_once,
    asap,
    get_default_lifecycle,
    one_by_one,
    randomized,
    set_default_lifecycle,
    shuffled,
)

__all__ = [
    "all_at_once",
    "asap",
    "get_default_lifecycle",
    "one_by_one",
    "randomized",
    "set_default_lifecycle",
    "shuffled",
]
