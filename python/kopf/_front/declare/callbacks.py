"""Types of the functions that users register, and combinators of filter functions."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union

from kopf._front.objects.bodies import (
    Annotations, Body, BodyEssence, Labels, Meta, RawEvent, Spec, Status,
)
from kopf._front.objects.causes import Logger
from kopf._front.objects.diffs import Diff
from kopf._front.objects.patches import Patch
from kopf._front.objects.references import Resource
from kopf._front.objects.reviews import Headers, SSLPeer, UserInfo
from kopf._front.objects.stoppers import DaemonStopped
from kopf._front.objects.triggers import Requeue, Triggers

if TYPE_CHECKING:
    from kopf._front.state.configuration import OperatorSettings

Result = object | None | Coroutine[None, None, object | None]
"""A result of a handler: of a plain function, or of a coroutine function."""

TypedBody = Any
"""A body or its part: a view by default, or an instance of the annotated model or dataclass."""


class ActivityFn(Protocol):
    """A handler of an activity: startup, cleanup, login, or probe."""

    def __call__(
        self,
        *,
        settings: OperatorSettings,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


class IndexingFn(Protocol):
    """An index handler."""

    def __call__(
        self,
        *,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


class ChildFn(Protocol):
    """A child handler."""

    def __call__(
        self,
        *,
        child: Body,
        type: str | None,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


class ReconcileFn(Protocol):
    """A reconcile handler."""

    def __call__(
        self,
        *,
        triggers: Triggers,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Requeue | None | Coroutine[None, None, Requeue | None]: ...


class ConvertFn(Protocol):
    """A conversion handler."""

    def __call__(
        self,
        *,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


class WatchingFn(Protocol):
    """An event handler."""

    def __call__(
        self,
        *,
        type: str,
        event: RawEvent,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


class ChangingFn(Protocol):
    """A handler of creation, updates, deletion, resuming, or of a field."""

    def __call__(
        self,
        *,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        reason: str,
        diff: Diff,
        old: TypedBody,
        new: TypedBody,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


class WebhookFn(Protocol):
    """An admission handler."""

    def __call__(
        self,
        *,
        dryrun: bool,
        warnings: list[str],
        subresource: str | None,
        userinfo: UserInfo,
        sslpeer: SSLPeer,
        headers: Headers,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


class DaemonFn(Protocol):
    """A daemon."""

    def __call__(
        self,
        *,
        stopped: DaemonStopped,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


class TimerFn(Protocol):
    """A timer."""

    def __call__(
        self,
        *,
        retry: int,
        started: datetime.datetime,
        runtime: datetime.timedelta,
        annotations: Annotations,
        labels: Labels,
        body: TypedBody,
        meta: Meta,
        spec: TypedBody,
        status: TypedBody,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> Result: ...


SpawningFn = Union[DaemonFn, TimerFn]


class WhenFilterFn(Protocol):
    """A filter function for ``when=``."""

    def __call__(
        self,
        *,
        type: str,
        event: RawEvent,
        annotations: Annotations,
        labels: Labels,
        body: Body,
        meta: Meta,
        spec: Spec,
        status: Status,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        diff: Diff,
        old: BodyEssence | Any | None,
        new: BodyEssence | Any | None,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> bool: ...


class MetaFilterFn(Protocol):
    """A filter function for a value of a label, an annotation, or a field."""

    def __call__(
        self,
        value: Any,
        *,
        type: str,
        annotations: Annotations,
        labels: Labels,
        body: Body,
        meta: Meta,
        spec: Spec,
        status: Status,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> bool: ...


class DelayFn(Protocol):
    """A function that returns an initial delay in seconds."""

    def __call__(
        self,
        *,
        annotations: Annotations,
        labels: Labels,
        body: Body,
        meta: Meta,
        spec: Spec,
        status: Status,
        resource: Resource,
        uid: str,
        name: str,
        namespace: str | None,
        patch: Patch,
        logger: Logger,
        memo: Any,
        param: Any = ...,
        **kwargs: Any,
    ) -> float: ...


_FnT = TypeVar("_FnT", WhenFilterFn, MetaFilterFn)


def not_(fn: _FnT) -> _FnT:
    """Returns a filter that matches if the function does not.

    Arguments:

    - ``fn``: a function for ``when``, or for a value of a label, annotation or field.

    ::

        def is_system(value, **_):
            return value.startswith("kube-")

        @kopf.on.event("pods", labels={"app": kopf.not_(is_system)})
        def seen(**_): ...
    """
    def not_fn(*args: Any, **kwargs: Any) -> bool:
        return not _call(fn, args, kwargs)
    return not_fn


def all_(fns: Collection[_FnT]) -> _FnT:
    """Returns a filter that matches if all of the functions match.

    Arguments:

    - ``fns``: functions for ``when``, or for values of labels, annotations and fields; not mixed.

    ::

        def is_large(spec, **_):
            return spec.get("size", 0) > 10

        def is_new(status, **_):
            return not status

        @kopf.on.event("kopfexamples", when=kopf.all_([is_large, is_new]))
        def seen(**_): ...
    """
    def all_fn(*args: Any, **kwargs: Any) -> bool:
        return all(_call(fn, args, kwargs) for fn in fns)
    return all_fn


def any_(fns: Collection[_FnT]) -> _FnT:
    """Returns a filter that matches if any of the functions matches.

    Arguments:

    - ``fns``: functions for ``when``, or for values of labels, annotations and fields; not mixed.

    ::

        def is_large(spec, **_):
            return spec.get("size", 0) > 10

        def is_new(status, **_):
            return not status

        @kopf.on.event("kopfexamples", when=kopf.any_([is_large, is_new]))
        def seen(**_): ...
    """
    def any_fn(*args: Any, **kwargs: Any) -> bool:
        return any(_call(fn, args, kwargs) for fn in fns)
    return any_fn


def none_(fns: Collection[_FnT]) -> _FnT:
    """Returns a filter that matches if none of the functions matches.

    Arguments:

    - ``fns``: functions for ``when``, or for values of labels, annotations and fields; not mixed.

    ::

        def is_large(spec, **_):
            return spec.get("size", 0) > 10

        def is_new(status, **_):
            return not status

        @kopf.on.event("kopfexamples", when=kopf.none_([is_large, is_new]))
        def seen(**_): ...
    """
    def none_fn(*args: Any, **kwargs: Any) -> bool:
        return not any(_call(fn, args, kwargs) for fn in fns)
    return none_fn


def _call(fn: Callable[..., bool], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return bool(fn(*args, **kwargs))
