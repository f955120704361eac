"""The historical path of :mod:`kopf._front.reviews`."""

from __future__ import annotations

from kopf._front.reviews import (
    CreateOptions,
    DeleteOptions,
    Headers,
    Operation,
    Request,
    RequestKind,
    RequestPayload,
    RequestResource,
    Response,
    ResponsePayload,
    ResponseStatus,
    SSLPeer,
    UpdateOptions,
    UserInfo,
    WebhookClientConfig,
    WebhookClientConfigService,
    WebhookFn,
    WebhookServerProtocol,
)

__all__ = [
    "CreateOptions",
    "DeleteOptions",
    "Headers",
    "Operation",
    "Request",
    "RequestKind",
    "RequestPayload",
    "RequestResource",
    "Response",
    "ResponsePayload",
    "ResponseStatus",
    "SSLPeer",
    "UpdateOptions",
    "UserInfo",
    "WebhookClientConfig",
    "WebhookClientConfigService",
    "WebhookFn",
    "WebhookServerProtocol",
]
