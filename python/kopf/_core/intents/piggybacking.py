"""The historical path of :mod:`kopf._front.piggybacking`."""

from __future__ import annotations

from kopf._front.piggybacking import (
    has_async_client,
    has_client,
    has_kubeconfig,
    has_pykube,
    has_service_account,
    has_sync_client,
    login_via_async_client,
    login_via_client,
    login_via_pykube,
    login_with_kubeconfig,
    login_with_service_account,
    PRIORITY_OF_ASYNC_CLIENT,
    PRIORITY_OF_CLIENT,
    PRIORITY_OF_KUBECONFIG,
    PRIORITY_OF_PYKUBE,
    PRIORITY_OF_SERVICE_ACCOUNT,
)

__all__ = [
    "has_async_client",
    "has_client",
    "has_kubeconfig",
    "has_pykube",
    "has_service_account",
    "has_sync_client",
    "login_via_async_client",
    "login_via_client",
    "login_via_pykube",
    "login_with_kubeconfig",
    "login_with_service_account",
    "PRIORITY_OF_ASYNC_CLIENT",
    "PRIORITY_OF_CLIENT",
    "PRIORITY_OF_KUBECONFIG",
    "PRIORITY_OF_PYKUBE",
    "PRIORITY_OF_SERVICE_ACCOUNT",
]
