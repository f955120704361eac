"""The historical path of :mod:`kopf._front.stoppers`."""

from __future__ import annotations

from kopf._front.stoppers import (
    AsyncDaemonStopperChecker,
    DaemonStopped,
    DaemonStoppingReason,
    SyncDaemonStopperChecker,
)

__all__ = [
    "AsyncDaemonStopperChecker",
    "DaemonStopped",
    "DaemonStoppingReason",
    "SyncDaemonStopperChecker",
]
