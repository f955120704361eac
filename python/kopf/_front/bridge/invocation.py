"""Arguments of users' functions, created from the calls of the engine."""

from __future__ import annotations

import concurrent.futures
import datetime
import inspect
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from kopf._front.declare import handlers as handlers_
from kopf._front.bridge import loggers
from kopf._front.objects import stoppers
from kopf._front.objects.bodies import Body
from kopf._front.objects.causes import (
    Activity, ActivityCause, ChangingCause, ChildCause, DaemonCause, IndexingCause, Reason,
    ReconcilingCause, ResourceCause, WatchingCause, WebhookCause,
)
from kopf._front.objects.diffs import Diff, DiffItem, DiffOperation
from kopf._front.objects.patches import Patch
from kopf._front.objects.triggers import Trigger
from kopf._front.declare.registries import ChangingRegistry

if TYPE_CHECKING:
    from kopf._front.bridge.bridge import Bridge
    from kopf._front.objects.causes import Cause
    from kopf._front.state.configuration import OperatorSettings
    from kopf._kopf import BodySource
    from kopf._kopf import Call as NativeCall
    from kopf._kopf import ReviewedSource, StopFlag

__all__ = ["Cycle", "is_async_fn", "make_cause", "make_filter_cause", "make_kwargs"]

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Cycle:
    """The state shared by all handlers of one cycle."""

    __slots__ = ("patch", "was_patched")

    def __init__(self) -> None:
        self.patch = Patch()
        self.was_patched = False


class LazyBody:
    """The source of a body that is converted on first access."""

    __slots__ = ("_source", "_value")

    def __init__(self, source: BodySource | ReviewedSource) -> None:
        self._source: BodySource | ReviewedSource | None = source
        self._value: Any = None

    def __call__(self) -> Any:
        source = self._source
        if source is not None:
            self._value = source.get()
            self._source = None
        return self._value


class LazyDiff(Diff):
    """A diff that is converted on first access."""

    def __init__(self, native: NativeCall) -> None:
        self._native: NativeCall | None = native
        self._converted: tuple[DiffItem, ...] = ()

    @property
    def _items(self) -> tuple[DiffItem, ...]:  # type: ignore[override]
        native = self._native
        if native is not None:
            self._converted = tuple(
                DiffItem(DiffOperation(operation), tuple(field), old, new)
                for operation, field, old, new in native.diff()
            )
            self._native = None
        return self._converted

    def __reduce__(self) -> tuple[Any, ...]:
        return Diff, (list(self._items),)


class ObjectLogger(loggers.ObjectLogger):
    """A logger of the object of a call, which does not access its body."""

    def __init__(self, ref: Mapping[str, Any], settings: OperatorSettings) -> None:
        extra = {"settings": settings, "k8s_skip": False, "k8s_ref": ref}
        logging.LoggerAdapter.__init__(self, loggers.logger, extra)


class LocalObjectLogger(ObjectLogger, loggers.LocalObjectLogger):
    """A logger without Kubernetes events."""


class TerseObjectLogger(ObjectLogger, loggers.TerseObjectLogger):
    """A logger for index functions."""


class NativeFlag:
    """The stop flag of a daemon or a timer."""

    __slots__ = ("_bridge", "_flag")

    def __init__(self, flag: StopFlag, bridge: Bridge) -> None:
        self._flag = flag
        self._bridge = bridge

    def is_set(self) -> bool:
        return self._flag.is_set()

    def reason(self) -> int:
        return self._flag.reason()

    def wait_blocking(self, timeout: float | None) -> bool:
        if self._bridge.virtual is None or self._flag.is_set():
            return self._flag.wait_blocking(timeout)
        future = self._bridge.new_blocking_future()
        self._flag.wait_into(future, timeout)
        try:
            return bool(self._bridge.result_of(future))
        except concurrent.futures.CancelledError:  # the operator has ended
            return self._flag.is_set()

    def wait_async(self, timeout: float | None) -> Any:
        future = self._bridge.new_future()
        self._flag.wait_into(future, timeout)
        return future


def make_cause(bridge: Bridge, native: NativeCall, handler: handlers_.Handler) -> Cause:
    """Returns the cause of a call of a handler."""
    if isinstance(handler, handlers_.ActivityHandler):
        activity = Activity(native.activity or handler.activity or "")
        return ActivityCause(
            logger=loggers.activity_logger(activity.value),
            indices=bridge.indices,
            memo=native.memo,
            activity=activity,
            settings=bridge.settings,
        )
    cycle = cast(Cycle, native.cycle)
    source = native.body_source().newest if native.is_live else LazyBody(native.body_source())
    body = Body(cast(Any, source))
    ref = native.reference
    common: dict[str, Any] = {
        "indices": bridge.indices,
        "memo": native.memo,
        "resource": native.resource,
        "patch": cycle.patch,
        "body": body,
    }
    if isinstance(handler, handlers_.ChangingHandler):
        common["logger"] = ObjectLogger(ref, bridge.settings)
        return _changing(native, common)
    if isinstance(handler, handlers_.ReconcileHandler):
        common["logger"] = ObjectLogger(ref, bridge.settings)
        triggers = frozenset(Trigger(name) for name in native.triggers())
        return ReconcilingCause(triggers=triggers, **common)
    if isinstance(handler, handlers_.SpawningHandler):
        common["logger"] = ObjectLogger(ref, bridge.settings)
        flag = native.stopped
        stopper = NativeFlag(flag, bridge) if flag is not None else None
        return DaemonCause(stopper=stopper, **common)
    if isinstance(handler, handlers_.IndexingHandler):
        return IndexingCause(logger=TerseObjectLogger(ref, bridge.settings), **common)
    if isinstance(handler, handlers_.WebhookHandler):
        return _webhook(native, handler, LocalObjectLogger(ref, bridge.settings), common)
    common["logger"] = LocalObjectLogger(ref, bridge.settings)
    if isinstance(handler, handlers_.ConvertHandler):
        return ResourceCause(**common)
    if isinstance(handler, handlers_.ChildHandler):
        child, type_ = native.child() or ({}, None)
        return ChildCause(child=Body(child), type=cast(Any, type_), **common)
    return _watching(native, common)


def make_filter_cause(bridge: Bridge, native: NativeCall, handler: object) -> Cause:
    """Returns the cause of a call of a filter, a delay, or a lifecycle."""
    logger = LocalObjectLogger(native.reference, bridge.settings)
    common: dict[str, Any] = {
        "indices": bridge.indices,
        "memo": native.memo,
        "resource": native.resource,
        "patch": Patch(),
        "body": Body(cast(Any, LazyBody(native.body_source()))),
        "logger": logger,
    }
    if isinstance(handler, handlers_.WebhookHandler):
        del common["logger"]
        return _webhook(native, handler, logger, common)
    if isinstance(handler, handlers_.WatchingHandler):
        return _watching(native, common)
    if native.has_change:
        return _changing(native, common)
    return ResourceCause(**common)


def _changing(native: NativeCall, common: dict[str, Any]) -> ChangingCause:
    return ChangingCause(
        initial=native.initial,
        reason=Reason(native.reason or "noop"),
        diff=LazyDiff(native),
        old=native.old(),
        new=native.new(),
        **common,
    )


def _watching(native: NativeCall, common: dict[str, Any]) -> WatchingCause:
    type_ = cast(Any, native.event_type)
    return WatchingCause(type=type_, event={"type": type_, "object": native.body()}, **common)


def _webhook(
    native: NativeCall,
    handler: handlers_.WebhookHandler,
    logger: Any,
    common: dict[str, Any],
) -> WebhookCause:
    parts: dict[str, Any] = native.admission() or {}
    old, new = native.reviewed()
    return WebhookCause(
        logger=logger,
        reason=handler.reason,
        webhook=None,
        warnings=native.warnings(),
        old=Body(cast(Any, LazyBody(old))) if old is not None else None,
        new=Body(cast(Any, LazyBody(new))) if new is not None else None,
        diff=LazyDiff(native),
        **parts,
        **common,
    )


def make_kwargs(
    native: NativeCall,
    handler: handlers_.Handler,
    cause: Cause,
    *,
    is_async: bool,
) -> dict[str, Any]:
    """Returns the keyword arguments of a handler."""
    seconds, microseconds = native.started
    kwargs: dict[str, Any] = {
        "param": handler.param,
        "retry": native.retry,
        "started": EPOCH + datetime.timedelta(seconds=seconds, microseconds=microseconds),
        "runtime": datetime.timedelta(seconds=native.runtime),
    }
    if isinstance(cause, ResourceCause):
        _add_object(kwargs, cause, is_async)
    else:
        kwargs.update(cause.async_kwargs if is_async else cause.sync_kwargs)
    return kwargs


def _add_object(kwargs: dict[str, Any], cause: ResourceCause, is_async: bool) -> None:
    """Adds the arguments of an object. Names come from its reference, without reading the body."""
    logger = cast(ObjectLogger, cause.logger)
    ref = cast(Mapping[str, Any], (logger.extra or {})["k8s_ref"])
    body = cause.body
    meta = body.meta
    kwargs["logger"] = logger
    kwargs["memo"] = cause.memo
    kwargs["resource"] = cause.resource
    kwargs["patch"] = cause.patch
    kwargs["body"] = body
    kwargs["spec"] = body.spec
    kwargs["meta"] = meta
    kwargs["status"] = body.status
    kwargs["uid"] = ref["uid"]
    kwargs["name"] = ref["name"]
    kwargs["namespace"] = ref["namespace"]
    kwargs["labels"] = meta.labels
    kwargs["annotations"] = meta.annotations
    if isinstance(cause, ChangingCause):
        kwargs["reason"] = cause.reason
        kwargs["diff"] = cause.diff
        kwargs["old"] = cause.old
        kwargs["new"] = cause.new
    elif isinstance(cause, DaemonCause):
        waiter = stoppers.AsyncFlagWaiter if is_async else stoppers.SyncFlagWaiter
        kwargs["stopped"] = waiter(cause.stopper)
    elif isinstance(cause, WatchingCause):
        kwargs["type"] = cause.type
        kwargs["event"] = cause.event
    elif isinstance(cause, WebhookCause):
        kwargs["dryrun"] = cause.dryrun
        kwargs["headers"] = cause.headers
        kwargs["sslpeer"] = cause.sslpeer
        kwargs["userinfo"] = cause.userinfo
        kwargs["warnings"] = cause.warnings
        kwargs["operation"] = cause.operation
        kwargs["subresource"] = cause.subresource
        kwargs["old"] = cause.old
        kwargs["new"] = cause.new
        kwargs["diff"] = cause.diff
    elif isinstance(cause, ReconcilingCause):
        kwargs["triggers"] = cause.triggers
    elif isinstance(cause, ChildCause):
        kwargs["child"] = cause.child
        kwargs["type"] = cause.type
    if cause.indices:
        kwargs.update(cause.indices)


def is_async_fn(fn: object) -> bool:
    """Returns ``True`` for coroutine functions, including partial, wrapped and callable objects."""
    seen = 0
    while seen < 100:
        seen += 1
        if inspect.iscoroutinefunction(fn):
            return True
        inner = getattr(fn, "func", None) if not inspect.isroutine(fn) else None
        if inner is None:
            inner = getattr(fn, "__wrapped__", None)
        if inner is None and not inspect.isroutine(fn) and not inspect.isclass(fn):
            inner = getattr(type(fn), "__call__", None)
            if not inspect.isfunction(inner):
                return False
        if inner is None:
            return False
        fn = inner
    return False


def new_subregistry(handler: handlers_.Handler) -> ChangingRegistry | None:
    """Returns an empty registry of sub-handlers, or ``None`` if the handler cannot have any."""
    return ChangingRegistry() if isinstance(handler, handlers_.ChangingHandler) else None

