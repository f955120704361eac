"""The historical path of :mod:`kopf._front.versions`."""

from __future__ import annotations

from kopf._front.versions import (
    commit_id,
    version,
    version_tuple,
)

__all__ = [
    "commit_id",
    "version",
    "version_tuple",
]
