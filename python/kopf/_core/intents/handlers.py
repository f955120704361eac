"""The historical path of :mod:`kopf._front.handlers`."""

from __future__ import annotations

from kopf._front.handlers import (
    ActivityHandler,
    ChangingHandler,
    DaemonHandler,
    IndexingHandler,
    ResourceHandler,
    SpawningHandler,
    TimerHandler,
    WatchingHandler,
    WebhookHandler,
)

__all__ = [
    "ActivityHandler",
    "ChangingHandler",
    "DaemonHandler",
    "IndexingHandler",
    "ResourceHandler",
    "SpawningHandler",
    "TimerHandler",
    "WatchingHandler",
    "WebhookHandler",
]
