"""Servers and tunnels of admission webhooks in one module."""

from __future__ import annotations

from kopf._front.serving.servers import (
    ClusterDetector,
    WebhookAutoServer,
    WebhookContextManager,
    WebhookDockerDesktopServer,
    WebhookK3dServer,
    WebhookMinikubeServer,
    WebhookServer,
)
from kopf._front.serving.tunnels import WebhookAutoTunnel, WebhookNgrokTunnel

__all__ = [
    "ClusterDetector",
    "WebhookAutoServer",
    "WebhookAutoTunnel",
    "WebhookContextManager",
    "WebhookDockerDesktopServer",
    "WebhookK3dServer",
    "WebhookMinikubeServer",
    "WebhookNgrokTunnel",
    "WebhookServer",
]
