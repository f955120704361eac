"""Webhook configurations for use without their management by the operator."""

from __future__ import annotations

import copy
import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

from kopf._front.declare.filters import MetaFilter, MetaFilterToken
from kopf._front.declare.handlers import WebhookHandler
from kopf._front.objects.ids import HandlerId
from kopf._front.objects.references import Resource
from kopf._front.objects.reviews import WebhookClientConfig

BAD_WEBHOOK_NAME = re.compile(r"[^\w\d\.-]")


def build_webhooks(
    handlers_: Iterable[WebhookHandler],
    *,
    resources: Iterable[Resource],
    name_suffix: str,
    client_config: WebhookClientConfig,
    persistent_only: bool = False,
) -> list[dict[str, Any]]:
    """Returns the items of ``webhooks`` of a webhook configuration, one per handler."""
    known = list(resources)
    return [
        {
            "name": _normalize_name(handler.id, suffix=name_suffix),
            "sideEffects": "NoneOnDryRun" if handler.side_effects else "None",
            "failurePolicy": "Ignore" if handler.ignore_failures else "Fail",
            "matchPolicy": "Equivalent",
            "rules": [
                _build_rule(handler, resource)
                for resource in known
                if handler.selector is not None and handler.selector.check(resource)
            ],
            "objectSelector": _build_labels_selector(handler.labels),
            "clientConfig": _inject_handler_id(client_config, handler.id),
            "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1", "v1beta1"],
        }
        for handler in handlers_
        if not persistent_only or handler.persistent
    ]


def _build_rule(handler: WebhookHandler, resource: Resource) -> dict[str, Any]:
    sub = f"/{handler.subresource}" if handler.subresource else ""
    return {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "resources": [f"{resource.plural}{sub}"],
        "operations": list(handler.operations or ["*"]),
        "scope": "*",
    }


def _build_labels_selector(labels: MetaFilter | None) -> dict[str, Any] | None:
    expressions: list[dict[str, Any]] = []
    for key, value in (labels or {}).items():
        if value is MetaFilterToken.PRESENT:
            expressions.append({"key": key, "operator": "Exists"})
        elif value is MetaFilterToken.ABSENT:
            expressions.append({"key": key, "operator": "DoesNotExist"})
        elif not callable(value):
            expressions.append({"key": key, "operator": "In", "values": [value]})
    return {"matchExpressions": expressions} if expressions else None


def _inject_handler_id(config: WebhookClientConfig, id: HandlerId) -> WebhookClientConfig:
    config = copy.deepcopy(config)
    quoted = urllib.parse.quote(id)
    url, service = config.get("url"), config.get("service")
    if url is not None:
        config["url"] = f"{url.rstrip('/')}/{quoted}"
    if service is not None:
        path = service.get("path") or ""
        service["path"] = f"{path.rstrip('/')}/{quoted}"
    return config


def _normalize_name(id: HandlerId, suffix: str) -> str:
    name = id.replace("/", ".").replace("_", "-")
    name = BAD_WEBHOOK_NAME.sub(lambda char: char.group(0).encode("utf-8").hex(), name)
    return f"{name}.{suffix}"
