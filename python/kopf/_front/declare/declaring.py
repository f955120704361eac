"""Conversion of the options of decorators to handlers in registries."""

from __future__ import annotations

import collections.abc
import datetime
import inspect
import numbers
import sys
import warnings
from collections.abc import Callable
from typing import Any

from kopf._front.declare import handlers, registries
from kopf._front.objects import dicts
from kopf._front.objects.causes import Activity, Reason, WebhookType
from kopf._front.objects.errors import ErrorsMode
from kopf._front.objects.references import Selector
from kopf._front.declare.registries import ChangingRegistry, OperatorRegistry

Options = dict[str, Any]
"""Options of a decorator by the names of its arguments."""

Decorator = Callable[[Any], Any]

NUMBERS = (
    "timeout", "retries", "backoff", "interval", "idle",
    "cancellation_backoff", "cancellation_timeout", "cancellation_polling",
)

#: Names of arguments that handlers have, and selectors of resources do not.
_ARGUMENTS = frozenset((
    "annotations", "body", "diff", "event", "labels", "logger", "memo", "meta", "name", "namespace",
    "new", "old", "param", "patch", "reason", "retry", "runtime", "spec", "started", "status",
    "stopped", "type", "uid",
))


def activity(options: Options, *, activity: Activity) -> Decorator:
    """Returns a decorator for handlers of the activity."""
    def decorator(fn: Any) -> Any:
        common = _common_fields(fn, options)
        handler = handlers.ActivityHandler(**common, activity=activity)
        _registry(options)._activities.append(handler)
        return fn
    return decorator


def changing(
    options: Options,
    *,
    reason: Reason | None = None,
    initial: bool | None = None,
    requires_finalizer: bool | None = None,
    field_needs_change: bool,
) -> Decorator:
    """Returns a decorator for change handlers."""
    _verify_parentheses(options)

    def decorator(fn: Any) -> Any:
        handler = handlers.ChangingHandler(
            **_resource_fields(fn, options),
            reason=reason,
            initial=initial,
            deleted=options.get("deleted"),
            requires_finalizer=requires_finalizer,
            field_needs_change=field_needs_change,
            old=options.get("old"),
            new=options.get("new"),
            owns=_owns(options),
        )
        _registry(options)._changing.append(handler)
        return fn
    return decorator


def watching(options: Options) -> Decorator:
    """Returns a decorator for event handlers."""
    _verify_parentheses(options)

    def decorator(fn: Any) -> Any:
        handler = handlers.WatchingHandler(**_resource_fields(fn, options))
        _registry(options)._watching.append(handler)
        return fn
    return decorator


def convert(options: Options) -> Decorator:
    """Returns a decorator for conversion handlers."""
    source, target = options["source"], options["target"]
    for name, given in (("source", source), ("target", target)):
        if not isinstance(given, str) or not given or "/" in given:
            raise ValueError(f"invalid {name} {given!r}: must be a version such as 'v1'")
    if source == target:
        raise ValueError(f"source and target must be different versions, not both {source!r}")

    def decorator(fn: Any) -> Any:
        handler = handlers.ConvertHandler(
            **_resource_fields(fn, options),
            source=source,
            target=target,
            persistent=options["persistent"],
        )
        _registry(options)._conversions.append(handler)
        return fn
    return decorator


def child(options: Options) -> Decorator:
    """Returns a decorator for child handlers."""
    _verify_parentheses(options)

    def decorator(fn: Any) -> Any:
        fields = _resource_fields(fn, options)
        parent = options["parent"]
        owns = [fields.pop("selector")]
        selector = _selector("parent", parent) if parent is not None else None
        handler = handlers.ChildHandler(**fields, selector=selector, owns=owns)
        _registry(options)._children.append(handler)
        return fn
    return decorator


#: Options of other handlers, which compare the old and the new value of a field.
_OF_CHANGES = frozenset({"field", "value", "old", "new"})


def reconcile(options: Options) -> Decorator:
    """Returns a decorator for reconcile handlers."""
    _verify_parentheses(options)
    for name in options["refused"]:
        reason = "has no such option; help(kopf.on.reconcile) lists its options"
        if name in _OF_CHANGES:
            reason = (
                "is called for whole objects; filter them with labels=, annotations= or when=, or use "
                "@kopf.on.field for the changes of one field"
            )
        raise TypeError(f"unexpected keyword argument {name!r}: a reconcile handler {reason}")
    every = _seconds("every", options["every"])
    finalizer = options["finalizer"]
    if finalizer is not None and not isinstance(finalizer, bool):
        raise TypeError(f"invalid finalizer {finalizer!r}: must be True or False")

    def decorator(fn: Any) -> Any:
        handler = handlers.ReconcileHandler(
            **_resource_fields(fn, options),
            owns=_owns(options),
            every=every,
            requires_finalizer=finalizer,
        )
        _registry(options)._reconciling.append(handler)
        return fn
    return decorator


def indexing(options: Options) -> Decorator:
    """Returns a decorator for index handlers. Their ids have no field suffixes."""
    _verify_parentheses(options)

    def decorator(fn: Any) -> Any:
        handler = handlers.IndexingHandler(**_resource_fields(fn, options, suffixed=False))
        _registry(options)._indexing.append(handler)
        return fn
    return decorator


def daemon(options: Options) -> Decorator:
    """Returns a decorator for daemons."""
    _verify_parentheses(options)

    def decorator(fn: Any) -> Any:
        handler = handlers.DaemonHandler(
            **_resource_fields(fn, options),
            requires_finalizer=True,
            initial_delay=options["initial_delay"],
            cancellation_backoff=options["cancellation_backoff"],
            cancellation_timeout=options["cancellation_timeout"],
            cancellation_polling=options["cancellation_polling"],
        )
        _registry(options)._spawning.append(handler)
        return fn
    return decorator


def timer(options: Options) -> Decorator:
    """Returns a decorator for timers."""
    _verify_parentheses(options)

    def decorator(fn: Any) -> Any:
        handler = handlers.TimerHandler(
            **_resource_fields(fn, options),
            requires_finalizer=True,
            initial_delay=options["initial_delay"],
            sharp=options["sharp"],
            idle=options["idle"],
            interval=options["interval"],
        )
        _registry(options)._spawning.append(handler)
        return fn
    return decorator


def webhook(options: Options, *, reason: WebhookType) -> Decorator:
    """Returns a decorator for admission handlers."""
    _verify_parentheses(options)

    def decorator(fn: Any) -> Any:
        handler = handlers.WebhookHandler(
            **_resource_fields(fn, options),
            reason=reason,
            operations=_operations(options),
            subresource=options["subresource"],
            persistent=options["persistent"],
            side_effects=options["side_effects"],
            ignore_failures=options["ignore_failures"],
        )
        _registry(options)._webhooks.append(handler)
        return fn
    return decorator


def subhandler(options: Options) -> Decorator:
    """Returns a decorator for sub-handlers of the currently running handler."""
    def decorator(fn: Any) -> Any:
        parent, registry = registries.get_current_subregistry()
        if not isinstance(parent, handlers.ChangingHandler):
            raise TypeError("Sub-handlers are only supported for resource-changing handlers: "
                            "in others, call the functions directly.")
        _verify_oldnew_in_subhandler(parent, options)
        handler = handlers.ChangingHandler(
            **_filter_fields(fn, options, prefix=parent.id, suffixed=False),
            selector=None,
            reason=None,
            initial=None,
            deleted=None,
            requires_finalizer=None,
            field_needs_change=parent.field_needs_change,
            old=options.get("old"),
            new=options.get("new"),
        )
        registry.append(handler)
        return fn
    return decorator


def _verify_parentheses(options: Options) -> None:
    """Rejects a handler in place of the resource: ``@kopf.on.create`` without parentheses.

    Without this, the function would become a selector that is never used.
    """
    fn = options.get("arg1")
    if not inspect.isroutine(fn) or not _looks_like_handler(fn):
        return
    decorator = sys._getframe(2).f_code.co_name
    module = "" if decorator in ("daemon", "timer", "index") else "on."
    raise TypeError(
        f"{fn.__name__}() is decorated without parentheses: add the resource, such as "
        f"@kopf.{module}{decorator}('kopfexamples')"
    )


def _looks_like_handler(fn: Any) -> bool:
    """Returns ``True`` if the function cannot be a selector, which gets one positional argument."""
    if inspect.iscoroutinefunction(fn):
        return True
    try:
        signature = inspect.signature(fn)
        signature.bind(None)
    except TypeError:
        return True
    except ValueError:  # a function of C without a signature
        return False
    first = next(iter(signature.parameters.values()))
    return first.kind is inspect.Parameter.VAR_KEYWORD or first.name in _ARGUMENTS


def _registry(options: Options) -> OperatorRegistry:
    registry = options["registry"]
    if registry is None:
        return registries.get_default_registry()
    if not isinstance(registry, OperatorRegistry):
        raise TypeError(f"invalid registry {registry!r}: must be a kopf.OperatorRegistry")
    return registry


def _resource_fields(fn: Any, options: Options, *, suffixed: bool = True) -> dict[str, Any]:
    selector = Selector(
        options["arg1"], options["arg2"], options["arg3"],
        group=options["group"],
        version=options["version"],
        kind=options["kind"],
        plural=options["plural"],
        singular=options["singular"],
        shortcut=options["shortcut"],
        category=options["category"],
    )
    return {**_filter_fields(fn, options, suffixed=suffixed), "selector": selector}


def _filter_fields(
    fn: Any, options: Options, *, prefix: str | None = None, suffixed: bool,
) -> dict[str, Any]:
    _verify_filters(options)
    field = dicts.parse_field(options.get("field")) or None
    suffix = ".".join(field) if suffixed and field else None
    common = _common_fields(fn, options, prefix=prefix, suffix=suffix)
    names = ("labels", "annotations", "when", "value")
    return {**common, **{name: options.get(name) for name in names}, "field": field}


def _common_fields(
    fn: Any, options: Options, *, prefix: str | None = None, suffix: str | None = None,
) -> dict[str, Any]:
    id = registries.generate_id(fn, options["id"], prefix=prefix, suffix=suffix)
    if not callable(fn):
        raise TypeError(f"handler {id!r} is not callable: {fn!r}; decorate a function")
    _verify_options(id, options)
    names = ("param", "errors", "timeout", "retries", "backoff")
    return {"id": id, "fn": fn, **{name: options.get(name) for name in names}}


def _seconds(option: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"invalid {option} {value!r}: must be a number of seconds or a timedelta")
    seconds = float(value)
    if not seconds > 0:
        raise ValueError(f"invalid {option} {value!r}: must be greater than 0; "
                         "omit it to be called for changes only")
    return seconds


def _owns(options: Options) -> list[Selector] | None:
    owns = options.get("owns")
    if owns is None:
        return None
    if isinstance(owns, str) or not isinstance(owns, collections.abc.Collection):
        raise TypeError(f"invalid owns {owns!r}: must be a list of resources, such as ['pods']")
    return [_selector("owns", item) for item in owns]


def _selector(option: str, resource: Any) -> Selector:
    if isinstance(resource, Selector):
        return resource
    names = resource if isinstance(resource, tuple) else (resource,)
    try:
        return Selector(*names)
    except TypeError as exc:
        raise TypeError(f"invalid {option} {resource!r}: {exc}") from exc


def _operations(options: Options) -> collections.abc.Collection[str] | None:
    operations = options["operations"]
    if operations is not None and not operations:
        raise ValueError(f"Operations should be either None or non-empty. Got empty {operations}: leave it "
                         f"out for all operations.")
    if isinstance(operations, str):
        operations = [operations]
    if options["operation"] is not None:
        warnings.warn("operation= is deprecated, use operations={...}.",
                      DeprecationWarning, stacklevel=3)
        operations = frozenset([*(operations or ()), options["operation"]])
    result: collections.abc.Collection[str] | None = operations
    return result


def _verify_options(id: str, options: Options) -> None:
    for name in NUMBERS:
        value = options.get(name)
        if value is not None and not isinstance(value, numbers.Real):
            raise TypeError(f"invalid {name} {value!r} of handler {id!r}: must be a number")
    errors = options.get("errors")
    if errors is not None and not isinstance(errors, ErrorsMode):
        raise TypeError(f"invalid errors {errors!r} of handler {id!r}: must be a kopf.ErrorsMode")
    delay = options.get("initial_delay")
    if delay is not None and not isinstance(delay, numbers.Real) and not callable(delay):
        raise TypeError(f"invalid initial_delay {delay!r} of handler {id!r}: "
                        "must be a number or a function")
    when = options.get("when")
    if when is not None and not callable(when):
        raise TypeError(f"invalid when {when!r} of handler {id!r}: must be a function")


def _verify_filters(options: Options) -> None:
    for name in ("labels", "annotations"):
        criteria = options.get(name)
        if criteria is None:
            continue
        if not isinstance(criteria, collections.abc.Mapping):
            raise TypeError(f"invalid {name} {criteria!r}: must be a dict")
        if any(criterion is None for criterion in criteria.values()):
            raise ValueError(f"`None` for {name.removesuffix('s')} filters is not supported; "
                             "use kopf.PRESENT or kopf.ABSENT.")
    value, old, new = options.get("value"), options.get("old"), options.get("new")
    changes = old is not None or new is not None
    if options.get("field") is None and (value is not None or changes):
        raise TypeError("Value/old/new filters are specified without a mandatory field: add field=.")
    if value is not None and changes:
        raise TypeError("Either value= or old=/new= can be defined, not both: value= is for both states, "
                        "old= and new= for one of them.")


def _verify_oldnew_in_subhandler(parent: handlers.ChangingHandler, options: Options) -> None:
    if options.get("old") is None and options.get("new") is None:
        return
    if parent.initial or parent.reason not in (None, Reason.UPDATE):
        raise TypeError("Filters old=/new= can only be used in update handlers: use value= here.")
