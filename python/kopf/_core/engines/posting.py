"""The historical path of the explicit posting of k8s-events.

The queue and the worker of the original are absent: k8s-events are posted by the native engine.
"""

from __future__ import annotations

from typing import Any

from kopf._front.eventing import event, exception, info, warn

__all__ = ["event", "exception", "info", "warn"]

_ABSENT = {"enqueue", "event_queue_loop_var", "event_queue_var", "poster", "settings_var", "K8sPoster"}


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise ImportError(
            f"kopf._core.engines.posting.{name} does not exist here: k8s-events are posted by "
            "the native engine. Use kopf.event() and alike inside of handlers."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
