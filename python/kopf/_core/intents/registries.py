"""The historical path of :mod:`kopf._front.registries`."""

from __future__ import annotations

from kopf._front.registries import (
    ActivityRegistry,
    ChangingRegistry,
    GenericRegistry,
    get_default_registry,
    IndexingRegistry,
    OperatorRegistry,
    ResourceRegistry,
    set_default_registry,
    SmartOperatorRegistry,
    SpawningRegistry,
    WatchingRegistry,
    WebhooksRegistry,
)
from kopf._front.ids import (
    generate_id,
    get_callable_id,
)
from kopf._front.matching import (
    match,
    prematch,
)

__all__ = [
    "ActivityRegistry",
    "ChangingRegistry",
    "generate_id",
    "GenericRegistry",
    "get_callable_id",
    "get_default_registry",
    "IndexingRegistry",
    "match",
    "OperatorRegistry",
    "prematch",
    "ResourceRegistry",
    "set_default_registry",
    "SmartOperatorRegistry",
    "SpawningRegistry",
    "WatchingRegistry",
    "WebhooksRegistry",
]
