"""The historical path of :mod:`kopf._front.callbacks`."""

from __future__ import annotations

from kopf._front.callbacks import (
    ActivityFn,
    all_,
    any_,
    ChangingFn,
    DaemonFn,
    DelayFn,
    IndexingFn,
    MetaFilterFn,
    none_,
    not_,
    SpawningFn,
    TimerFn,
    WatchingFn,
    WebhookFn,
    WhenFilterFn,
)

__all__ = [
    "ActivityFn",
    "all_",
    "any_",
    "ChangingFn",
    "DaemonFn",
    "DelayFn",
    "IndexingFn",
    "MetaFilterFn",
    "none_",
    "not_",
    "SpawningFn",
    "TimerFn",
    "WatchingFn",
    "WebhookFn",
    "WhenFilterFn",
]
