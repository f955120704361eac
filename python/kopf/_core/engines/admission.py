"""The historical path of errors of admission."""

from __future__ import annotations

from kopf._front.errors import (
    AdmissionError,
    AmbiguousResourceError,
    MissingDataError,
    UnknownResourceError,
    WebhookError,
)
from kopf._front.webhook_configs import (
    build_webhooks,
)

__all__ = [
    "AdmissionError",
    "AmbiguousResourceError",
    "build_webhooks",
    "MissingDataError",
    "UnknownResourceError",
    "WebhookError",
]
