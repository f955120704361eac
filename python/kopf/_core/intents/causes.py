"""The historical path of :mod:`kopf._front.causes`."""

from __future__ import annotations

from kopf._front.causes import (
    Activity,
    ActivityCause,
    ALL_REASONS,
    BaseCause,
    ChangingCause,
    DaemonCause,
    HANDLER_REASONS,
    IndexingCause,
    REACTOR_REASONS,
    Reason,
    ResourceCause,
    SpawningCause,
    TITLES,
    WatchingCause,
    WebhookCause,
    WebhookType,
)

__all__ = [
    "Activity",
    "ActivityCause",
    "ALL_REASONS",
    "BaseCause",
    "ChangingCause",
    "DaemonCause",
    "HANDLER_REASONS",
    "IndexingCause",
    "REACTOR_REASONS",
    "Reason",
    "ResourceCause",
    "SpawningCause",
    "TITLES",
    "WatchingCause",
    "WebhookCause",
    "WebhookType",
]
