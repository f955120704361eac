"""Decorators of handlers.

.. code-block:: python

    import kopf

    @kopf.on.create("kopfexamples")
    def created(spec, **_):
        ...

The positional arguments select a resource: ``"kopfexamples"``, ``"kopfexamples.kopf.dev"``,
``"kopf.dev", "kopfexamples"``, ``"kopf.dev/v1", "kopfexamples"``,
``"kopf.dev", "v1", "kopfexamples"``, ``kopf.EVERYTHING``, or a function of a resource.
All decorators return the function itself and can be stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from kopf._front.declare import declaring
from kopf._front.declare.callbacks import (
    ActivityFn, ChangingFn, ChildFn, ConvertFn, DaemonFn, DelayFn, IndexingFn, TimerFn, WatchingFn, WebhookFn,
    WhenFilterFn,
)
from kopf._front.objects.causes import Activity, Reason, WebhookType
from kopf._front.objects.dicts import FieldSpec
from kopf._front.objects.errors import ErrorsMode
from kopf._front.declare.filters import MetaFilter, ValueFilter
from kopf._front.objects.references import Marker, SelectorFn
from kopf._front.declare.registries import OperatorRegistry
from kopf._front.objects.reviews import Operation

ActivityDecorator = Callable[[ActivityFn], ActivityFn]
IndexingDecorator = Callable[[IndexingFn], IndexingFn]
WatchingDecorator = Callable[[WatchingFn], WatchingFn]
ChangingDecorator = Callable[[ChangingFn], ChangingFn]
WebhookDecorator = Callable[[WebhookFn], WebhookFn]
DaemonDecorator = Callable[[DaemonFn], DaemonFn]
TimerDecorator = Callable[[TimerFn], TimerFn]
ChildDecorator = Callable[[ChildFn], ChildFn]
ConvertDecorator = Callable[[ConvertFn], ConvertFn]

ResourceSpec = str | Marker | SelectorFn | tuple[str, ...]
"""A resource in an option: one name, or the positional arguments of decorators as a tuple."""

Owns = Collection[ResourceSpec]
"""Resources of objects owned by the handled object."""


def startup(
    *,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    registry: OperatorRegistry | None = None,
) -> ActivityDecorator:
    """Declares a handler that runs before the operator connects to the cluster."""
    return declaring.activity(locals(), activity=Activity.STARTUP)


def cleanup(
    *,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    registry: OperatorRegistry | None = None,
) -> ActivityDecorator:
    """Declares a handler that runs when the operator exits."""
    return declaring.activity(locals(), activity=Activity.CLEANUP)


def login(
    *,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    registry: OperatorRegistry | None = None,
) -> ActivityDecorator:
    """Declares a handler that returns credentials for the API server."""
    return declaring.activity(locals(), activity=Activity.AUTHENTICATION)


def probe(
    *,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    registry: OperatorRegistry | None = None,
) -> ActivityDecorator:
    """Declares a handler whose results the liveness endpoint serves."""
    return declaring.activity(locals(), activity=Activity.PROBE)


def validate(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    operation: Operation | None = None,
    operations: Collection[Operation] | None = None,
    subresource: str | None = None,
    persistent: bool | None = None,
    side_effects: bool | None = None,
    ignore_failures: bool | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    registry: OperatorRegistry | None = None,
) -> WebhookDecorator:
    """Declares a handler that admits or rejects API requests."""
    return declaring.webhook(locals(), reason=WebhookType.VALIDATING)


def mutate(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    operation: Operation | None = None,
    operations: Collection[Operation] | None = None,
    subresource: str | None = None,
    persistent: bool | None = None,
    side_effects: bool | None = None,
    ignore_failures: bool | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    registry: OperatorRegistry | None = None,
) -> WebhookDecorator:
    """Declares a handler that changes objects in API requests."""
    return declaring.webhook(locals(), reason=WebhookType.MUTATING)


def convert(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    source: str,
    target: str,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    persistent: bool | None = None,
    registry: OperatorRegistry | None = None,
) -> ConvertDecorator:
    """Declares a handler that converts objects from one version of a resource to another.

    The function returns the converted object, or changes it by ``patch``. ``kind``, ``apiVersion``
    and ``metadata`` can be omitted. Metadata other than labels and annotations must not be changed.
    """
    return declaring.convert(locals())


def resume(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    deleted: bool | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    owns: Owns | None = None,
    registry: OperatorRegistry | None = None,
) -> ChangingDecorator:
    """Declares a handler of objects that existed before the operator started."""
    return declaring.changing(locals(), initial=True, field_needs_change=False)


def create(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    owns: Owns | None = None,
    registry: OperatorRegistry | None = None,
) -> ChangingDecorator:
    """Declares a handler of new objects."""
    return declaring.changing(locals(), reason=Reason.CREATE, field_needs_change=False)


def update(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    old: ValueFilter | None = None,
    new: ValueFilter | None = None,
    owns: Owns | None = None,
    registry: OperatorRegistry | None = None,
) -> ChangingDecorator:
    """Declares a handler of changes to the essence."""
    return declaring.changing(locals(), reason=Reason.UPDATE, field_needs_change=True)


def delete(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    optional: bool | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    owns: Owns | None = None,
    registry: OperatorRegistry | None = None,
) -> ChangingDecorator:
    """Declares a handler of deletions. Unless optional, it blocks the deletion."""
    return declaring.changing(
        locals(), reason=Reason.DELETE, field_needs_change=False, requires_finalizer=not optional,
    )


def field(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec,
    value: ValueFilter | None = None,
    old: ValueFilter | None = None,
    new: ValueFilter | None = None,
    owns: Owns | None = None,
    registry: OperatorRegistry | None = None,
) -> ChangingDecorator:
    """Declares a handler of changes to one field, including its appearance and removal."""
    return declaring.changing(locals(), field_needs_change=True)


def index(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    registry: OperatorRegistry | None = None,
) -> IndexingDecorator:
    """Declares a handler whose results are stored in an in-memory index."""
    return declaring.indexing(locals())


def event(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    registry: OperatorRegistry | None = None,
) -> WatchingDecorator:
    """Declares a handler of all watch events, without retries and progress records."""
    return declaring.watching(locals())


def child(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    parent: ResourceSpec | None = None,
    registry: OperatorRegistry | None = None,
) -> ChildDecorator:
    """Declares a handler of changes to objects owned by the handled objects.

    The function is called with the owner and with ``child``, the owned object, and ``type``, the
    type of the event. The owner is an object of the ``parent`` resource, or of any resource with
    other handlers. Like event handlers, it is called once, without retries.
    """
    return declaring.child(locals())


def daemon(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    initial_delay: float | DelayFn | None = None,
    cancellation_backoff: float | None = None,
    cancellation_timeout: float | None = None,
    cancellation_polling: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    registry: OperatorRegistry | None = None,
) -> DaemonDecorator:
    """Declares a function that runs in the background while the object exists and matches."""
    return declaring.daemon(locals())


def timer(
    arg1: str | Marker | SelectorFn | None = None,
    arg2: str | Marker | None = None,
    arg3: str | Marker | None = None,
    /,
    *,
    group: str | None = None,
    version: str | None = None,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    shortcut: str | None = None,
    category: str | None = None,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    interval: float | None = None,
    initial_delay: float | DelayFn | None = None,
    sharp: bool | None = None,
    idle: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    registry: OperatorRegistry | None = None,
) -> TimerDecorator:
    """Declares a function that is called at intervals while the object exists and matches."""
    return declaring.timer(locals())


def subhandler(
    *,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
    field: FieldSpec = None,
    value: ValueFilter | None = None,
    old: ValueFilter | None = None,
    new: ValueFilter | None = None,
) -> ChangingDecorator:
    """Declares a sub-handler of the currently running change handler."""
    return declaring.subhandler(locals())


def register(
    fn: ChangingFn,
    *,
    id: str | None = None,
    param: Any | None = None,
    errors: ErrorsMode | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    backoff: float | None = None,
    labels: MetaFilter | None = None,
    annotations: MetaFilter | None = None,
    when: WhenFilterFn | None = None,
) -> ChangingFn:
    """Registers a function as a sub-handler. The imperative form of :func:`subhandler`."""
    decorator: ChangingDecorator = declaring.subhandler({**locals()})
    return decorator(fn)


if not TYPE_CHECKING:  # Type checkers must report unknown names.

    def __getattr__(name: str) -> Any:
        if name == "this":
            raise AttributeError("kopf.on.this was removed: use kopf.subhandler")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
