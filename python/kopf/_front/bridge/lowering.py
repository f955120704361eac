"""Descriptions of handlers and storages for the engine.

Python functions are called only if needed: literal filters and the provided lifecycles and storages
are described here and evaluated natively.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kopf._front.declare import lifecycles
from kopf._front.state import diffbase, progress
from kopf._front.objects.dicts import parse_field
from kopf._front.declare.filters import ABSENT, PRESENT
from kopf._front.declare.handlers import (
    ActivityHandler, ChangingHandler, ChildHandler, ConvertHandler, DaemonHandler, Handler,
    IndexingHandler, ReconcileHandler, ResourceHandler, SpawningHandler, TimerHandler,
    WatchingHandler, WebhookHandler,
)
from kopf._front.bridge.invocation import is_async_fn
from kopf._front.objects.references import EVERYTHING, Selector

if TYPE_CHECKING:
    from kopf._front.declare.registries import OperatorRegistry

__all__ = [
    "all_handlers", "describe_diffbase_storage", "describe_progress_storage", "lower",
    "lower_lifecycle",
]

_numbers: dict[Any, int] = {}


def all_handlers(registry: OperatorRegistry) -> list[Handler]:
    """Returns all handlers of a registry. Fallback logins are omitted if there are other logins."""
    activities = list(registry._activities.get_all_handlers())
    proper = {handler.activity for handler in activities if not handler._fallback}
    handlers: list[Handler] = [
        handler for handler in activities
        if not (handler._fallback and handler.activity in proper)
    ]
    handlers.extend(registry._indexing.get_all_handlers())
    handlers.extend(registry._watching.get_all_handlers())
    handlers.extend(registry._children.get_all_handlers())
    handlers.extend(registry._reconciling.get_all_handlers())
    handlers.extend(registry._spawning.get_all_handlers())
    handlers.extend(registry._changing.get_all_handlers())
    handlers.extend(registry._webhooks.get_all_handlers())
    handlers.extend(registry._conversions.get_all_handlers())
    return handlers


def lower(handler: Handler, *, parent: Handler | None = None) -> dict[str, Any]:
    """Returns the description of a handler. With a parent, it is a sub-handler."""
    own_id = str(handler.id)
    if parent is not None:
        # The engine prepends the id of the parent.
        own_id = own_id.removeprefix(f"{parent.id}/")
    spec: dict[str, Any] = {
        "handler": handler,
        "id": own_id,
        # Sub-handlers are functions of one call, so numbers for them would accumulate.
        "function": _number(handler.fn) if parent is None else id(handler.fn),
        "is_async": is_async_fn(handler.fn),
        "errors": handler.errors.name if handler.errors is not None else None,
        "timeout": handler.timeout,
        "retries": handler.retries,
        "backoff": handler.backoff,
    }
    if isinstance(handler, ActivityHandler):
        spec["kind"] = str(handler.activity.value) if handler.activity is not None else "startup"
        return spec
    if isinstance(handler, ResourceHandler):
        _lower_filters(spec, handler)
    if isinstance(handler, ChangingHandler):
        _lower_change(spec, handler, is_sub=parent is not None)
    elif isinstance(handler, SpawningHandler):
        _lower_background(spec, handler)
    elif isinstance(handler, WebhookHandler):
        _lower_webhook(spec, handler)
    elif isinstance(handler, IndexingHandler):
        spec["kind"] = "index"
    elif isinstance(handler, WatchingHandler):
        spec["kind"] = "event"
    elif isinstance(handler, ConvertHandler):
        spec["kind"] = "convert"
        spec["source"] = handler.source
        spec["target"] = handler.target
        spec["persistent"] = bool(handler.persistent)
    elif isinstance(handler, ReconcileHandler):
        spec["kind"] = "reconcile"
        spec["owns"] = [_lower_selector(selector) for selector in handler.owns or ()]
        spec["every"] = handler.every
        spec["finalizer"] = bool(handler.requires_finalizer)
    elif isinstance(handler, ChildHandler):
        spec["kind"] = "child"
        spec["owns"] = [_lower_selector(selector) for selector in handler.owns]
    else:
        raise TypeError(f"{handler} has an unknown type: {type(handler).__qualname__}")
    return spec


def _number(fn: Callable[..., Any]) -> int:
    """Returns the same number for the same function, even for a method accessed twice."""
    try:
        return _numbers.setdefault(fn, len(_numbers))
    except TypeError:
        return _numbers.setdefault(id(fn), len(_numbers))


def _lower_filters(spec: dict[str, Any], handler: ResourceHandler) -> None:
    if handler.selector is not None:
        spec["selector"] = _lower_selector(handler.selector)
    spec["labels"] = _lower_meta(handler.labels)
    spec["annotations"] = _lower_meta(handler.annotations)
    spec["when"] = handler.when
    spec["field"] = list(handler.field) if handler.field else None
    spec["value"] = _lower_value(handler.value)


def _lower_selector(selector: Selector) -> dict[str, Any]:
    name = selector.any_name
    return {
        "group": selector.group,
        "version": selector.version,
        "kind": selector.kind,
        "plural": selector.plural,
        "singular": selector.singular,
        "shortcut": selector.shortcut,
        "category": selector.category,
        "any_name": name if isinstance(name, str) else None,
        "everything": name is EVERYTHING,
        "callable": selector.fn,
    }


def describe_selectors(selectors: Mapping[Selector, Any]) -> list[tuple[dict[str, Any], str]]:
    """Returns the selectors of streams, with descriptions of their resources."""
    return [(_lower_selector(selector), str(text)) for selector, text in selectors.items()]


def _lower_meta(filters: Mapping[str, Any] | None) -> list[tuple[str, str, Any]] | None:
    if not filters:
        return None
    return [(key, *_meta_criterion(value)) for key, value in filters.items()]


def _meta_criterion(value: Any) -> tuple[str, Any]:
    """Returns a criterion of a label or an annotation, which only equal strings."""
    kind, payload = _criterion(value)
    return ("callback", _never) if kind == "literal" and not isinstance(payload, str) else (kind, payload)


def _never(*_: Any, **__: Any) -> bool:
    return False


def _lower_value(value: Any) -> tuple[str, Any] | None:
    return None if value is None else _criterion(value)


def _criterion(value: Any) -> tuple[str, Any]:
    if value is PRESENT:
        return "present", value
    if value is ABSENT:
        return "absent", value
    if callable(value):
        return "callback", value
    return "literal", value


def _lower_change(spec: dict[str, Any], handler: ChangingHandler, *, is_sub: bool) -> None:
    spec["owns"] = [_lower_selector(selector) for selector in handler.owns or ()]
    spec["old"] = _lower_value(handler.old)
    spec["new"] = _lower_value(handler.new)
    if is_sub:
        spec["kind"] = "sub"
        spec["needs_change"] = bool(handler.field_needs_change)
    elif handler.initial:
        spec["kind"] = "resume"
        spec["deleted"] = bool(handler.deleted)
    elif handler.reason is None:
        spec["kind"] = "field"
    else:
        spec["kind"] = str(handler.reason.value)
        spec["optional"] = not handler.requires_finalizer


def _lower_background(spec: dict[str, Any], handler: SpawningHandler) -> None:
    spec["initial_delay"] = handler.initial_delay
    if isinstance(handler, DaemonHandler):
        spec["kind"] = "daemon"
        spec["cancellation_backoff"] = handler.cancellation_backoff
        spec["cancellation_timeout"] = handler.cancellation_timeout
        spec["cancellation_polling"] = handler.cancellation_polling
    elif isinstance(handler, TimerHandler):
        spec["kind"] = "timer"
        spec["interval"] = handler.interval
        spec["sharp"] = bool(handler.sharp)
        spec["idle"] = handler.idle


def _lower_webhook(spec: dict[str, Any], handler: WebhookHandler) -> None:
    spec["kind"] = str(handler.reason.value)
    spec["operations"] = list(handler.operations) if handler.operations is not None else None
    spec["subresource"] = handler.subresource
    spec["persistent"] = bool(handler.persistent)
    spec["side_effects"] = bool(handler.side_effects)
    spec["ignore_failures"] = bool(handler.ignore_failures)


def lower_lifecycle(lifecycle: Any) -> Any:
    """Returns the name of a provided lifecycle with a seed, or the function itself."""
    if lifecycle is None:
        return None
    provided = {
        lifecycles.all_at_once: "all_at_once",
        lifecycles.one_by_one: "one_by_one",
        lifecycles.randomized: "randomized",
        lifecycles.shuffled: "shuffled",
        lifecycles.asap: "asap",
    }
    name = provided.get(lifecycle)
    return lifecycle if name is None else (name, int.from_bytes(os.urandom(8), "big") >> 1)


def describe_progress_storage(storage: Any) -> dict[str, Any] | None:
    """Describes a provided progress storage; ``None`` if methods are overridden."""
    _verify(storage, "ProgressStorage", ("fetch", "store", "purge", "touch", "clear", "flush"))
    kind = _provided(storage, {
        progress.AnnotationsProgressStorage: "annotations",
        progress.StatusProgressStorage: "status",
        progress.SmartProgressStorage: "smart",
        progress.MultiProgressStorage: "multi",
    })
    match kind:
        case "annotations":
            return _annotations_progress(kind, storage)
        case "status":
            return {"kind": kind, **_status_progress(storage)}
        case "smart":
            parts = list(storage.storages)
            described = [describe_progress_storage(part) for part in parts]
            kinds = [part["kind"] if part else None for part in described]
            if kinds == ["annotations", "status"]:
                return {**(described[1] or {}), **(described[0] or {}), "kind": "smart"}
            return {"kind": "multi", "storages": parts}
        case "multi":
            return {"kind": kind, "storages": list(storage.storages)}
    return None


def status_field(storage: Any) -> list[str] | None:
    """Returns the field of a storage with overridden methods that keeps records in the status."""
    is_status = isinstance(storage, progress.StatusProgressStorage)
    return list(parse_field(storage.field)) if is_status else None


def _annotations_progress(kind: str, storage: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "prefix": storage.prefix or "",
        "verbose": bool(storage.verbose),
        "touch_key": storage.touch_key,
        "v1": bool(storage.v1),
    }


def _status_progress(storage: Any) -> dict[str, Any]:
    return {
        "name": storage.name,
        "field": list(parse_field(storage.field)),
        "touch_field": list(parse_field(storage.touch_field)),
    }


def describe_diffbase_storage(storage: Any) -> dict[str, Any] | None:
    """Describes a provided diff-base storage; ``None`` if methods are overridden."""
    _verify(storage, "DiffBaseStorage", ("build", "fetch", "store"))
    kind = _provided(storage, {
        diffbase.AnnotationsDiffBaseStorage: "annotations",
        diffbase.StatusDiffBaseStorage: "status",
        diffbase.MultiDiffBaseStorage: "multi",
    })
    ignored = [list(parse_field(field)) for field in getattr(storage, "ignored_fields", None) or ()]
    match kind:
        case "annotations":
            return {
                "kind": kind, "prefix": storage.prefix or "", "key": storage.key,
                "v1": bool(storage.v1), "ignored_fields": ignored,
            }
        case "status":
            return {
                "kind": kind, "name": storage.name, "field": list(parse_field(storage.field)),
                "ignored_fields": ignored,
            }
        case "multi":
            return {"kind": kind, "storages": list(storage.storages)}
    return None


def _verify(storage: Any, name: str, methods: Iterable[str]) -> None:
    missing = [method for method in methods if not callable(getattr(storage, method, None))]
    if missing:
        raise TypeError(f"must be a kopf.{name}, but has no method {missing[0]}()")


def _provided(storage: Any, classes: Mapping[type, str]) -> str | None:
    """Returns the kind of a provided class, or of a subclass that overrides only its constructor."""
    for base, kind in classes.items():
        if type(storage) is base:
            return kind
    for base, kind in classes.items():
        if isinstance(storage, base):
            between = type(storage).__mro__[:type(storage).__mro__.index(base)]
            overridden = {
                name for cls in between for name, member in vars(cls).items()
                if name != "__init__" and (callable(member) or isinstance(member, property))
            }
            return None if overridden else kind
    return None
