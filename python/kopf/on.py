"""Decorators of handlers.

.. code-block:: python

    import kopf

    @kopf.on.create("kopfexamples")
    def created(spec, **_):
        ...

The positional arguments select a resource: ``"kopfexamples"``, ``"kopfexamples.kopf.dev"``,
``"kopf.dev", "kopfexamples"``, ``"kopf.dev/v1", "kopfexamples"``,
``"kopf.dev", "v1", "kopfexamples"``, ``kopf.EVERYTHING``, a model declared with ``@kopf.crd``, or a
function of a resource. All decorators return the function itself and can be stacked.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NoReturn

from kopf._front.declare import declaring, documenting
from kopf._front.declare.callbacks import (
    ActivityFn, ChangingFn, ChildFn, ConvertFn, DaemonFn, DelayFn, IndexingFn, ReconcileFn, TimerFn,
    WatchingFn, WebhookFn, WhenFilterFn,
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
ReconcileDecorator = Callable[[ReconcileFn], ReconcileFn]
ConvertDecorator = Callable[[ConvertFn], ConvertFn]

ResourceSpec = str | Marker | SelectorFn | type[Any] | tuple[str, ...]
"""A resource in an option: a name, a model, or the positional arguments of decorators as a tuple."""

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
    """Declares a handler that runs before the operator connects to the cluster.

    If it fails permanently, the operator does not start. Settings are changed here::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.posting.enabled = False
    """
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
    """Declares a handler that runs when the operator exits, after all other handlers have ended::

        @kopf.on.cleanup()
        async def disconnect(memo, **_):
            await memo.database.close()
    """
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
    """Declares a handler that returns credentials for the API server.

    It is called on startup, and again when the credentials expire or are rejected. It returns
    :class:`kopf.ConnectionInfo`, or ``None`` if it has no credentials::

        @kopf.on.login()
        def login(**kwargs):
            return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
    """
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
    """Declares a handler whose results the liveness endpoint serves; if it fails, so does the probe::

        import datetime

        @kopf.on.probe(id="now")
        def get_time(**_):
            return datetime.datetime.now(datetime.timezone.utc).isoformat()
    """
    return declaring.activity(locals(), activity=Activity.PROBE)


def validate(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler that admits or rejects API requests, before the object is stored.

    Raise :class:`kopf.AdmissionError` to reject the request; append to ``warnings`` to warn the user.
    Requires ``settings.admission.server``::

        @kopf.on.validate("kopfexamples")
        def check(spec, warnings, **_):
            if spec.get("size", 0) > 10:
                raise kopf.AdmissionError("size is too large: must be at most 10", code=400)
    """
    return declaring.webhook(locals(), reason=WebhookType.VALIDATING)


def mutate(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler that changes objects in API requests by ``patch``, before they are stored.

    Requires ``settings.admission.server``::

        @kopf.on.mutate("kopfexamples", operations=["CREATE"])
        def set_defaults(spec, patch, **_):
            patch.spec["size"] = spec.get("size", 1)
    """
    return declaring.webhook(locals(), reason=WebhookType.MUTATING)


def convert(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    and ``metadata`` can be omitted. Metadata other than labels and annotations must not be changed::

        @kopf.on.convert("kopfexamples", source="v1", target="v2")
        def to_v2(body, **_):
            return {"spec": {"ports": [body["spec"]["port"]]}}
    """
    return declaring.convert(locals())


def resume(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler of objects that existed before the operator started.

    It is called once per object and process, also after restarts::

        @kopf.on.resume("kopfexamples")
        @kopf.on.create("kopfexamples")
        def connect(name, memo, **_):
            memo.connection = open_connection(name)
    """
    return declaring.changing(locals(), initial=True, field_needs_change=False)


def create(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler of new objects, which is retried until it succeeds or fails permanently.

    The result is stored in the status under the id of the handler::

        @kopf.on.create("kopfexamples", retries=3)
        def create_fn(spec, name, logger, **_):
            if not is_reachable(spec["host"]):
                raise kopf.TemporaryError("the host is not reachable", delay=30)
            return {"job": start_job(name)}
    """
    return declaring.changing(locals(), reason=Reason.CREATE, field_needs_change=False)


def update(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler of changes to an object: its spec, labels and annotations, not its status.

    ``diff``, ``old`` and ``new`` are the changes since the last handling::

        @kopf.on.update("kopfexamples", field="spec.size", old=kopf.PRESENT)
        def resize(old, new, **_):
            print(f"resizing from {old} to {new}")
    """
    return declaring.changing(locals(), reason=Reason.UPDATE, field_needs_change=True)


def delete(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler of deletions. The object exists, with a finalizer, until it has succeeded.

    With ``optional=True``, there is no finalizer, and the call is not guaranteed::

        @kopf.on.delete("kopfexamples")
        def clean_up(name, **_):
            drop_database(name)
    """
    return declaring.changing(
        locals(), reason=Reason.DELETE, field_needs_change=False, requires_finalizer=not optional,
    )


def field(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler of changes to one field, including its appearance and removal::

        @kopf.on.field("kopfexamples", field="metadata.labels.team")
        def move(old, new, **_):
            print(f"moving from {old} to {new}")

    It is also called for new objects with this field, with ``old=None``.
    """
    return declaring.changing(locals(), field_needs_change=True)


def index(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler whose results are stored in an in-memory index.

    All handlers get the index as an argument with the name of this function: a mapping of keys to
    collections of values. A dict has keys of its own; other results have the key ``None``::

        @kopf.index("pods")
        def ips_by_node(spec, status, **_):
            return {spec.get("nodeName"): status.get("podIP")}

        @kopf.timer("kopfexamples", interval=60)
        def show(ips_by_node: kopf.Index, **_):
            print(list(ips_by_node.get("node-1", [])))
    """
    return declaring.indexing(locals())


def event(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a handler of all watch events, without retries and progress records::

        @kopf.on.event("pods", labels={"app": "web"})
        def seen(type, name, **_):
            print(f"{name} is {type}")  # None (listed), ADDED, MODIFIED, DELETED
    """
    return declaring.watching(locals())


def child(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    other handlers. Like event handlers, it is called once, without retries::

        @kopf.on.child("pods", parent="kopfexamples")
        def count(child, type, patch, **_):
            patch.status["phase"] = child.status.get("phase")
    """
    return declaring.child(locals())


def reconcile(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    owns: Owns | None = None,
    every: float | datetime.timedelta | None = None,
    finalizer: bool | None = None,
    registry: OperatorRegistry | None = None,
    **refused: NoReturn,
) -> ReconcileDecorator:
    """Declares one handler for everything that can make an object differ from its desired state.

    The function is called when the object is created or changed, when the operator starts, when an
    object that it owns changes, and after a period. It compares the desired state with the actual
    one and corrects it. Several reasons lead to one call; there is one call at a time for an
    object, and none while other handlers of its changes run::

        @kopf.on.reconcile("kopfexamples", owns=["deployments"], every=300)
        def sync(spec, triggers, logger, **_):
            logger.info(f"reconciling because of: {', '.join(sorted(triggers))}")
            if not spec.get("ready"):
                return kopf.Requeue(after=30)

    The keyword argument ``triggers`` is a set of :class:`kopf.Trigger`: the reasons of the call.
    The result is ``None``, or :class:`kopf.Requeue` to be called again after some time. Other
    results are errors: write them to ``patch.status``.

    The id must differ from those of other handlers of the same objects. All owned objects are known
    (:func:`kopf.children`) before the first call. A change of the object or of its children ends the
    delay after an error.
    """
    return declaring.reconcile(locals())


def daemon(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a function that runs in the background while the object exists and matches.

    One task or thread per object. It must return when ``stopped`` is set: when the object is deleted
    or does not match any more, or when the operator exits::

        @kopf.daemon("kopfexamples")
        async def monitor(name, stopped, **_):
            while not await stopped.wait(10):
                print(f"{name} is alive")
    """
    return declaring.daemon(locals())


def timer(
    arg1: str | Marker | SelectorFn | type[Any] | None = None,
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
    """Declares a function that is called at intervals while the object exists and matches::

        @kopf.timer("kopfexamples", interval=60, idle=10)
        def check(name, patch, **_):
            patch.status["size"] = measure(name)
    """
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
    """Declares a sub-handler of the currently running change handler.

    It is executed after its parent, with retries and a progress record of its own::

        @kopf.on.create("kopfexamples")
        def create_fn(spec, **_):
            for item in spec.get("items", []):
                @kopf.subhandler(id=item)
                def create_item(item=item, **_):
                    make(item)
    """
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
    """Registers a function as a sub-handler. The imperative form of :func:`kopf.subhandler`::

        import functools

        def make_item(item, **_):
            print(f"making {item}")

        @kopf.on.create("kopfexamples")
        def create_fn(spec, **_):
            for item in spec.get("items", []):
                kopf.register(functools.partial(make_item, item), id=item)
    """
    decorator: ChangingDecorator = declaring.subhandler({**locals()})
    return decorator(fn)


documenting.document(value for name, value in list(vars().items()) if not name.startswith("_"))

if not TYPE_CHECKING:  # Type checkers must report unknown names.

    def __getattr__(name: str) -> Any:
        if name == "this":
            raise AttributeError("kopf.on.this was removed: use kopf.subhandler")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
