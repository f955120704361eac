"""Registries of handlers. The engine reads them when an operator starts."""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Generic, TypeVar

from kopf._front.objects import current
from kopf._front.state import piggybacking
from kopf._front.objects.causes import (
    Activity, ChangingCause, IndexingCause, ResourceCause, SpawningCause, WatchingCause,
    WebhookCause, WebhookType,
)
from kopf._front.objects.dicts import FieldPath
from kopf._front.objects.errors import ErrorsMode
from kopf._front.declare.handlers import (
    ActivityHandler, ChangingHandler, ChildHandler, ConvertHandler, Handler, IndexingHandler,
    ReconcileHandler, ResourceHandler, SpawningHandler, WatchingHandler, WebhookHandler,
)
from kopf._front.objects.ids import HandlerId, generate_id, get_callable_id
from kopf._front.declare.matching import match, matches_resource, prematch
from kopf._front.objects.references import Resource, Selector

__all__ = [
    "ActivityRegistry", "ChangingRegistry", "GenericRegistry", "IndexingRegistry",
    "OperatorRegistry", "ResourceRegistry", "SmartOperatorRegistry", "SpawningRegistry",
    "WatchingRegistry", "WebhooksRegistry", "generate_id", "get_callable_id",
    "get_default_registry", "match", "prematch", "set_default_registry",
]

CauseT = TypeVar("CauseT", bound=ResourceCause)
HandlerT = TypeVar("HandlerT", bound=Handler)
ResourceHandlerT = TypeVar("ResourceHandlerT", bound=ResourceHandler)


class GenericRegistry(Generic[HandlerT]):
    """A list of handlers in the order of their registration."""

    def __init__(self) -> None:
        super().__init__()
        self._handlers: list[HandlerT] = []
        self._is_in_use = False

    def append(self, handler: HandlerT) -> None:
        """Adds a handler."""
        if self._is_in_use:
            logging.getLogger("kopf").warning(
                "%s is registered after the startup of the operator: it has no effect.", handler)
        self._handlers.append(handler)

    def get_all_handlers(self) -> Collection[HandlerT]:
        """Returns all handlers."""
        return list(self._handlers)


class ActivityRegistry(GenericRegistry[ActivityHandler]):
    """Handlers of activities."""

    def get_handlers(self, activity: Activity) -> Sequence[ActivityHandler]:
        """Returns the handlers of an activity, without duplicates."""
        return list(_deduplicated(self.iter_handlers(activity)))

    def iter_handlers(self, activity: Activity) -> Iterator[ActivityHandler]:
        """Yields the handlers of an activity. Fallbacks are used only without other handlers."""
        found = [h for h in self._handlers if h.activity is None or h.activity == activity]
        proper = [handler for handler in found if not handler._fallback]
        yield from proper or found


class ResourceRegistry(GenericRegistry[ResourceHandlerT], Generic[ResourceHandlerT, CauseT]):
    """Handlers of objects."""

    def get_all_selectors(self) -> frozenset[Selector]:
        """Returns the selectors of all handlers."""
        return frozenset(h.selector for h in self._handlers if h.selector is not None)

    def has_handlers(self, resource: Resource) -> bool:
        """Returns ``True`` if there are any handlers for the resource."""
        return any(matches_resource(handler, resource) for handler in self._handlers)

    def get_extra_fields(self, resource: Resource) -> set[FieldPath]:
        """Returns the fields of the handlers of the resource."""
        return set(self.iter_extra_fields(resource))

    def iter_extra_fields(self, resource: Resource) -> Iterator[FieldPath]:
        """Yields the fields of the handlers of the resource."""
        for handler in self._handlers:
            if matches_resource(handler, resource) and handler.field:
                yield handler.field

    def get_handlers(
        self, cause: CauseT, excluded: Container[HandlerId] = frozenset(),
    ) -> Sequence[ResourceHandlerT]:
        """Returns the handlers that match the cause, without duplicates."""
        return list(_deduplicated(self.iter_handlers(cause, excluded)))

    def iter_handlers(
        self, cause: CauseT, excluded: Container[HandlerId] = frozenset(),
    ) -> Iterator[ResourceHandlerT]:
        """Yields the handlers that match the cause."""
        for handler in self._handlers:
            if handler.id not in excluded and match(handler, cause):
                yield handler


class IndexingRegistry(ResourceRegistry[IndexingHandler, IndexingCause]):
    """Index handlers."""


class WatchingRegistry(ResourceRegistry[WatchingHandler, WatchingCause]):
    """Event handlers."""


class SpawningRegistry(ResourceRegistry[SpawningHandler, SpawningCause]):
    """Daemons and timers."""

    def requires_finalizer(
        self, cause: SpawningCause, excluded: Container[HandlerId] = frozenset(),
    ) -> bool:
        """Returns ``True`` if any matching daemon or timer needs a finalizer on the object."""
        return any(
            handler.requires_finalizer and match(handler, cause)
            for handler in self._handlers
            if handler.id not in excluded
        )


class ChangingRegistry(ResourceRegistry[ChangingHandler, ChangingCause]):
    """Change handlers."""

    def get_resource_handlers(self, resource: Resource) -> Sequence[ChangingHandler]:
        """Returns all handlers of the resource, without duplicates."""
        found = (h for h in self._handlers if matches_resource(h, resource))
        return list(_deduplicated(found))

    def iter_handlers(
        self, cause: ChangingCause, excluded: Container[HandlerId] = frozenset(),
    ) -> Iterator[ChangingHandler]:
        """Yields the handlers that match the cause, by its reason and by the filters."""
        for handler in self._handlers:
            if handler.id in excluded:
                continue
            if handler.reason is not None and handler.reason != cause.reason:
                continue
            if handler.initial and not cause.initial:
                continue
            if handler.initial and cause.deleted and not handler.deleted:
                continue
            if match(handler, cause):
                yield handler

    def prematch(self, cause: ChangingCause) -> bool:
        """Returns ``True`` if any handler matches the object, regardless of the change."""
        return any(prematch(handler, cause) for handler in self._handlers)

    def requires_finalizer(
        self, cause: ResourceCause, excluded: Container[HandlerId] = frozenset(),
    ) -> bool:
        """Returns ``True`` if any handler of the object needs a finalizer on it."""
        return any(
            handler.requires_finalizer and prematch(handler, cause)
            for handler in self._handlers
            if handler.id not in excluded
        )


class WebhooksRegistry(ResourceRegistry[WebhookHandler, WebhookCause]):
    """Admission handlers."""

    def iter_handlers(
        self, cause: WebhookCause, excluded: Container[HandlerId] = frozenset(),
    ) -> Iterator[WebhookHandler]:
        """Yields the handlers that match the review."""
        for handler in self._handlers:
            if handler.id in excluded:
                continue
            if cause.reason is not None and cause.reason != handler.reason:
                continue
            if cause.webhook is not None and cause.webhook != handler.id:
                continue
            # Deletions cannot be mutated, unless the handler is explicitly for deletions.
            mutates_deleted = (
                cause.operation == "DELETE"
                and handler.reason == WebhookType.MUTATING
                and set(handler.operations or ()) != {"DELETE"}
            )
            if not mutates_deleted and match(handler, cause):
                yield handler


class OperatorRegistry:
    """A set of handlers. Usually there is one for the process, which decorators fill; create your own to run
    several operators in one process, or to test one alone::

        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        def login_fn(**kwargs):
            return kopf.login_with_kubeconfig(**kwargs)

        @kopf.on.create("kopfexamples", registry=registry)
        def create_fn(**_): ...

    Then run it with ``kopf.run(registry=registry, clusterwide=True)``. It begins empty, so it needs a login
    handler; only the default registry of the process has the default logins.
    """

    def __init__(self) -> None:
        super().__init__()
        self._activities = ActivityRegistry()
        self._indexing = IndexingRegistry()
        self._watching = WatchingRegistry()
        self._children: GenericRegistry[ChildHandler] = GenericRegistry()
        self._reconciling: GenericRegistry[ReconcileHandler] = GenericRegistry()
        self._conversions: GenericRegistry[ConvertHandler] = GenericRegistry()
        self._spawning = SpawningRegistry()
        self._changing = ChangingRegistry()
        self._webhooks = WebhooksRegistry()

    def _set_in_use(self, is_in_use: bool) -> None:
        """Marks the registries as in use: later registrations have no effect."""
        for registry in vars(self).values():
            if isinstance(registry, GenericRegistry):
                registry._is_in_use = is_in_use


class SmartOperatorRegistry(OperatorRegistry):
    """A registry with the default login handlers, used if no others are registered."""

    def __init__(self) -> None:
        super().__init__()
        for fn in piggybacking.iter_default_logins():
            self._activities.append(ActivityHandler(
                id=HandlerId(fn.__name__),
                fn=fn,
                param=None,
                errors=ErrorsMode.IGNORED,
                timeout=None,
                retries=None,
                backoff=None,
                activity=Activity.AUTHENTICATION,
                _fallback=True,
            ))


def _deduplicated(src: Iterable[HandlerT]) -> Iterator[HandlerT]:
    """Skips the repeated pairs of a function and an id; the first one wins.

    For example, one function with `@on.create` and `@on.resume` is called once for a change.
    """
    seen: set[tuple[int, HandlerId]] = set()
    for handler in src:
        key = (id(handler.fn), handler.id)
        if key not in seen:
            seen.add(key)
            yield handler


_default_registry: OperatorRegistry | None = None


def get_default_registry() -> OperatorRegistry:
    """Returns the registry that decorators without ``registry`` fill, and that operators use by default.

    ::

        assert isinstance(kopf.get_default_registry(), kopf.OperatorRegistry)
    """
    global _default_registry
    if _default_registry is None:
        _default_registry = SmartOperatorRegistry()
    return _default_registry


def set_default_registry(registry: OperatorRegistry) -> None:
    """Replaces the registry that decorators without ``registry`` fill; for tests and embedded operators.

    Arguments:

    - ``registry``: the new one.

    ::

        kopf.set_default_registry(kopf.OperatorRegistry())
    """
    global _default_registry
    _default_registry = registry


handler_var: ContextVar[Handler] = ContextVar("handler_var")
"""The handler of the current call."""

subregistry_var: ContextVar[ChangingRegistry] = ContextVar("subregistry_var")
"""The registry of sub-handlers of the current call."""


def get_current_subregistry() -> tuple[Handler, ChangingRegistry]:
    """Returns the handler of the current call and the registry of its sub-handlers.

    Raises :class:`LookupError` outside of handlers, and :class:`TypeError` in handlers that have
    no sub-handlers.
    """
    handler, registry = handler_var.get(None), subregistry_var.get(None)
    if handler is None:
        call = current.call()
        handler, registry = call.handler, call.subregistry
    if registry is None:
        raise TypeError("Sub-handlers are only supported for resource-changing handlers: "
                        "in others, call the functions directly.")
    return handler, registry
