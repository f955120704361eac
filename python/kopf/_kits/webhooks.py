"""The historical path of webhook servers."""

from __future__ import annotations

from typing import Any


__all__ = [
]

_LAZY = {
    "ClusterDetector": "webhooks",
    "WebhookAutoServer": "webhooks",
    "WebhookAutoTunnel": "webhooks",
    "WebhookDockerDesktopServer": "webhooks",
    "WebhookK3dServer": "webhooks",
    "WebhookMinikubeServer": "webhooks",
    "WebhookNgrokTunnel": "webhooks",
    "WebhookServer": "webhooks",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"kopf._front.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
