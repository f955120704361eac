"""The historical path of credentials."""

from __future__ import annotations

from kopf._front.credentials import (
    AiohttpSession,
    ConnectionInfo,
    KubeContext,
    Vault,
    VaultKey,
)
from kopf._front.errors import (
    AccessError,
    LoginError,
)

__all__ = [
    "AccessError",
    "AiohttpSession",
    "ConnectionInfo",
    "KubeContext",
    "LoginError",
    "Vault",
    "VaultKey",
]
