"""Matching of handlers against causes: the filters of the decorators."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, cast

from kopf._front.objects import dicts
from kopf._front.objects.causes import ChangingCause, ResourceCause, WebhookCause
from kopf._front.declare.filters import MetaFilter, MetaFilterToken
from kopf._front.declare.handlers import ChangingHandler, ResourceHandler, WebhookHandler
from kopf._front.objects.references import Resource


class _UNSET(enum.Enum):
    token = enum.auto()


def match(handler: ResourceHandler, cause: ResourceCause) -> bool:
    """Returns ``True`` if all filters of the handler match the cause."""
    kwargs = _LazyKwargs(cause)
    return _prematch(handler, cause, kwargs) \
        and _matches_field_changes(handler, cause, kwargs) \
        and _matches_when(handler, kwargs)


def prematch(handler: ResourceHandler, cause: ResourceCause) -> bool:
    """Returns ``True`` if all filters match, except for those of the change itself."""
    kwargs = _LazyKwargs(cause)
    return _prematch(handler, cause, kwargs) and _matches_when(handler, kwargs)


def matches_resource(handler: ResourceHandler, resource: Resource) -> bool:
    """Returns ``True`` if the handler is for this resource."""
    return handler.selector is None or handler.selector.check(resource)


class _LazyKwargs:
    """Keyword arguments of filter functions, created only if there are any such functions."""

    def __init__(self, cause: ResourceCause) -> None:
        self._cause = cause
        self._kwargs: dict[str, Any] | None = None

    def __call__(self) -> dict[str, Any]:
        if self._kwargs is None:
            self._kwargs = self._cause.kwargs
        return self._kwargs


def _prematch(handler: ResourceHandler, cause: ResourceCause, kwargs: _LazyKwargs) -> bool:
    return (
        matches_resource(handler, cause.resource)
        and _matches_subresource(handler, cause)
        and _matches_metadata(handler.labels, cause.body.meta.labels, kwargs)
        and _matches_metadata(handler.annotations, cause.body.meta.annotations, kwargs)
        and _matches_field_values(handler, cause, kwargs)
    )


def _matches_subresource(handler: ResourceHandler, cause: ResourceCause) -> bool:
    if not isinstance(handler, WebhookHandler) or not isinstance(cause, WebhookCause):
        return True
    return handler.subresource == "*" or handler.subresource == cause.subresource


def _matches_metadata(
    pattern: MetaFilter | None, content: Mapping[str, str], kwargs: _LazyKwargs,
) -> bool:
    for key, criterion in (pattern or {}).items():
        value = content.get(key, _UNSET.token)
        if not _matches_value(criterion, value, kwargs):
            return False
    return True


def _matches_value(criterion: Any, value: Any, kwargs: _LazyKwargs) -> bool:
    if criterion is MetaFilterToken.PRESENT:
        return value is not _UNSET.token
    if criterion is MetaFilterToken.ABSENT:
        return value is _UNSET.token
    if callable(criterion):
        return bool(criterion(None if value is _UNSET.token else value, **kwargs()))
    return value is not _UNSET.token and bool(criterion == value)


def _matches_field_values(
    handler: ResourceHandler, cause: ResourceCause, kwargs: _LazyKwargs,
) -> bool:
    if not handler.field:
        return True
    criterion = MetaFilterToken.PRESENT if handler.value is None else handler.value
    sources: list[Any] = [cause.body]
    if isinstance(cause, ChangingCause):
        sources = [cause.new, cause.old]
    return any(
        _matches_value(criterion, dicts.resolve(source, handler.field, _UNSET.token), kwargs)
        for source in sources
    )


def _matches_field_changes(
    handler: ResourceHandler, cause: ResourceCause, kwargs: _LazyKwargs,
) -> bool:
    if not isinstance(handler, ChangingHandler) or not isinstance(cause, ChangingCause):
        return True
    if not handler.field:
        return True
    old = dicts.resolve(cast(Any, cause.old), handler.field, _UNSET.token)
    new = dicts.resolve(cast(Any, cause.new), handler.field, _UNSET.token)
    return (
        (not handler.field_needs_change or old != new)
        and (handler.old is None or _matches_value(handler.old, old, kwargs))
        and (handler.new is None or _matches_value(handler.new, new, kwargs))
    )


def _matches_when(handler: ResourceHandler, kwargs: _LazyKwargs) -> bool:
    when = cast(Callable[..., bool] | None, handler.when)
    return when is None or bool(when(**kwargs()))
