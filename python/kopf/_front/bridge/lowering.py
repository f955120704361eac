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
    IndexingHandler, ReconcileHandler, ResourceHandler, TimerHandler,
    WatchingHandler, WebhookHandler,
)
from kopf._front.bridge import descriptions
from kopf._front.bridge.descriptions import Criterion, HandlerDescription, SelectorDescription
from kopf._front.bridge.invocation import is_async_fn
from kopf._front.objects.causes import Reason
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


def lower(handler: Handler, *, parent: Handler | None = None) -> HandlerDescription:
    """Returns the description of a handler. With a parent, it is a sub-handler."""
    own_id = str(handler.id)
    if parent is not None:
        # The engine prepends the id of the parent.
        own_id = own_id.removeprefix(f"{parent.id}/")
    return HandlerDescription(
        kind=_kind(handler, is_sub=parent is not None),
        handler=handler,
        id=own_id,
        # Sub-handlers are functions of one call, so numbers for them would accumulate.
        function=_number(handler.fn) if parent is None else id(handler.fn),
        is_async=is_async_fn(handler.fn),
        errors=handler.errors.name if handler.errors is not None else None,
        timeout=handler.timeout,
        retries=handler.retries,
        backoff=handler.backoff,
    )


def _kind(handler: Handler, *, is_sub: bool) -> descriptions.Kind:
    match handler:
        case ActivityHandler():
            activity = handler.activity.value if handler.activity is not None else "startup"
            return descriptions.ActivityKind(str(activity))
        case ChangingHandler():
            return _change_kind(handler, is_sub=is_sub)
        case DaemonHandler():
            return descriptions.DaemonKind(
                target=_target(handler),
                initial_delay=handler.initial_delay,
                cancellation_backoff=handler.cancellation_backoff,
                cancellation_timeout=handler.cancellation_timeout,
                cancellation_polling=handler.cancellation_polling,
            )
        case TimerHandler():
            return descriptions.TimerKind(
                target=_target(handler),
                initial_delay=handler.initial_delay,
                interval=handler.interval,
                sharp=bool(handler.sharp),
                idle=handler.idle,
            )
        case WebhookHandler() | ConvertHandler():
            return _review_kind(handler)
        case IndexingHandler():
            return descriptions.IndexKind(_target(handler))
        case WatchingHandler():
            return descriptions.EventKind(_target(handler))
        case ReconcileHandler():
            return descriptions.ReconcileKind(
                target=_target(handler),
                owns=_owned(handler.owns),
                every=handler.every,
                finalizer=bool(handler.requires_finalizer),
            )
        case ChildHandler():
            return descriptions.ChildKind(_target(handler), _owned(handler.owns))
    raise TypeError(f"{handler} has an unknown type: {type(handler).__qualname__}")


def _change_kind(handler: ChangingHandler, *, is_sub: bool) -> descriptions.Kind:
    change = descriptions.ChangeDescription(
        target=_target(handler),
        owns=_owned(handler.owns),
        old=_optional_criterion(handler.old),
        new=_optional_criterion(handler.new),
    )
    if is_sub:
        return descriptions.SubKind(change, needs_change=bool(handler.field_needs_change))
    if handler.initial:
        return descriptions.ResumeKind(change, deleted=bool(handler.deleted))
    match handler.reason:
        case None:
            return descriptions.FieldKind(change)
        case Reason.CREATE:
            return descriptions.CreateKind(change)
        case Reason.UPDATE:
            return descriptions.UpdateKind(change)
        case Reason.DELETE:
            return descriptions.DeleteKind(change, optional=not handler.requires_finalizer)
        case Reason.RESUME:
            return descriptions.ResumeKind(change, deleted=False)
    raise ValueError(f'unknown kind of handlers "{handler.reason.value}"')


def _review_kind(handler: WebhookHandler | ConvertHandler) -> descriptions.Kind:
    if isinstance(handler, ConvertHandler):
        return descriptions.ConvertKind(
            target=_target(handler),
            source=handler.source,
            destination=handler.target,
            persistent=bool(handler.persistent),
        )
    return descriptions.WebhookKind(
        target=_target(handler),
        review=str(handler.reason.value),
        operations=list(handler.operations) if handler.operations is not None else None,
        subresource=handler.subresource,
        persistent=bool(handler.persistent),
        side_effects=bool(handler.side_effects),
        ignore_failures=bool(handler.ignore_failures),
    )


def _number(fn: Callable[..., Any]) -> int:
    """Returns the same number for the same function, even for a method accessed twice."""
    try:
        return _numbers.setdefault(fn, len(_numbers))
    except TypeError:
        return _numbers.setdefault(id(fn), len(_numbers))


def _target(handler: ResourceHandler) -> descriptions.TargetDescription:
    return descriptions.TargetDescription(
        selector=_selector(handler.selector) if handler.selector is not None else None,
        labels=_meta_criteria(handler.labels),
        annotations=_meta_criteria(handler.annotations),
        field=list(handler.field) if handler.field else None,
        value=_optional_criterion(handler.value),
        when=handler.when,
    )


def _owned(selectors: Iterable[Selector] | None) -> list[SelectorDescription]:
    return [_selector(selector) for selector in selectors or ()]


def _selector(selector: Selector) -> SelectorDescription:
    name = selector.any_name
    return SelectorDescription(
        group=selector.group,
        version=selector.version,
        kind=selector.kind,
        plural=selector.plural,
        singular=selector.singular,
        shortcut=selector.shortcut,
        category=selector.category,
        any_name=name if isinstance(name, str) else None,
        everything=name is EVERYTHING,
        callable=selector.fn,
    )


def describe_selectors(selectors: Mapping[Selector, Any]) -> list[tuple[SelectorDescription, str]]:
    """Returns the selectors of streams, with descriptions of their resources."""
    return [(_selector(selector), str(text)) for selector, text in selectors.items()]


def _meta_criteria(filters: Mapping[str, Any] | None) -> list[tuple[str, Criterion]]:
    return [(key, _meta_criterion(value)) for key, value in (filters or {}).items()]


def _meta_criterion(value: Any) -> Criterion:
    """Returns a criterion of a label or an annotation, which only equal strings."""
    match _criterion(value):
        case descriptions.Literal(literal) if not isinstance(literal, str):
            return descriptions.Callback(_never)
        case criterion:
            return criterion


def _never(*_: Any, **__: Any) -> bool:
    return False


def _optional_criterion(value: Any) -> Criterion | None:
    return None if value is None else _criterion(value)


def _criterion(value: Any) -> Criterion:
    if value is PRESENT:
        return descriptions.Present()
    if value is ABSENT:
        return descriptions.Absent()
    if callable(value):
        return descriptions.Callback(value)
    return descriptions.Literal(value)


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
