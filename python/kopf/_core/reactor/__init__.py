"""Private paths of the original."""

from __future__ import annotations

from kopf._front.lazily import submodules

__getattr__ = submodules(__name__)
