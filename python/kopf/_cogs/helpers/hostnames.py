"""The historical path of hostnames."""

from __future__ import annotations

from kopf._front.identities import (
    get_descriptive_hostname,
    remove_useless_suffixes,
)

__all__ = [
    "get_descriptive_hostname",
    "remove_useless_suffixes",
]
