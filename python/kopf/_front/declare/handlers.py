"""Handlers: functions with the options of their decorators."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, cast

from kopf._front.declare import callbacks
from kopf._front.objects import diffs
from kopf._front.objects.causes import Activity, Cause, ChangingCause, Reason, WebhookType
from kopf._front.objects.dicts import FieldPath, resolve
from kopf._front.objects.errors import ErrorsMode
from kopf._front.declare.filters import MetaFilter, ValueFilter
from kopf._front.objects.ids import HandlerId
from kopf._front.objects.records import FrozenRecord
from kopf._front.objects.references import Selector

CauseT = TypeVar("CauseT", bound=Cause)


@dataclasses.dataclass(eq=False, repr=False)
class Handler(FrozenRecord):
    """The options that all handlers have."""

    id: HandlerId
    fn: Callable[..., callbacks.Result]
    param: Any | None
    errors: ErrorsMode | None
    timeout: float | None
    retries: int | None
    backoff: float | None

    def __str__(self) -> str:
        return f"Handler {self.id!r}"

    def adjust_cause(self, cause: CauseT) -> CauseT:
        """Returns the cause for this handler."""
        return cause


@dataclasses.dataclass(eq=False, repr=False)
class ActivityHandler(Handler):
    """A handler of an activity."""

    fn: callbacks.ActivityFn
    activity: Activity | None
    _fallback: bool = False
    """Called only if the activity has no other handlers."""

    def __str__(self) -> str:
        return f"Activity {self.id!r}"


@dataclasses.dataclass(eq=False, repr=False)
class ResourceHandler(Handler):
    """The options of handlers of objects."""

    selector: Selector | None
    labels: MetaFilter | None
    annotations: MetaFilter | None
    when: callbacks.WhenFilterFn | None
    field: FieldPath | None
    value: ValueFilter | None

    def adjust_cause(self, cause: CauseT) -> CauseT:
        """Reduces the values and the diff of changes to the handler's field."""
        if self.field is None or not isinstance(cause, ChangingCause):
            return cause
        reduced = dataclasses.replace(
            cause,
            old=resolve(cast(Any, cause.old), self.field, None),
            new=resolve(cast(Any, cause.new), self.field, None),
            diff=diffs.reduce(cause.diff, self.field),
        )
        return reduced


@dataclasses.dataclass(eq=False, repr=False)
class WebhookHandler(ResourceHandler):
    """An admission handler."""

    fn: callbacks.WebhookFn
    reason: WebhookType
    operations: Collection[str] | None
    subresource: str | None
    persistent: bool | None
    side_effects: bool | None
    ignore_failures: bool | None

    def __str__(self) -> str:
        return f"Webhook {self.id!r}"

    @property
    def operation(self) -> str | None:
        """The only operation of the handler. Deprecated: use ``operations``."""
        warnings.warn("handler.operation is deprecated, use handler.operations",
                      DeprecationWarning, stacklevel=2)
        if not self.operations:
            return None
        if len(self.operations) == 1:
            return next(iter(self.operations))
        raise ValueError(f"{self} has several operations: {sorted(self.operations)}")


@dataclasses.dataclass(eq=False, repr=False)
class IndexingHandler(ResourceHandler):
    """An index handler."""

    fn: callbacks.IndexingFn

    def __str__(self) -> str:
        return f"Indexer {self.id!r}"


@dataclasses.dataclass(eq=False, repr=False)
class WatchingHandler(ResourceHandler):
    """An event handler."""

    fn: callbacks.WatchingFn


@dataclasses.dataclass(eq=False, repr=False)
class ConvertHandler(ResourceHandler):
    """A conversion handler."""

    fn: callbacks.ConvertFn
    source: str
    target: str
    persistent: bool | None

    def __str__(self) -> str:
        return f"Conversion {self.id!r}"


@dataclasses.dataclass(eq=False, repr=False)
class ChildHandler(ResourceHandler):
    """A child handler."""

    fn: callbacks.ChildFn
    owns: Sequence[Selector]


@dataclasses.dataclass(eq=False, repr=False)
class ReconcileHandler(ResourceHandler):
    """A reconcile handler."""

    fn: callbacks.ReconcileFn
    owns: Sequence[Selector] | None
    every: float | None
    requires_finalizer: bool | None


@dataclasses.dataclass(eq=False, repr=False)
class ChangingHandler(ResourceHandler):
    """A change handler."""

    fn: callbacks.ChangingFn
    reason: Reason | None
    initial: bool | None
    deleted: bool | None
    requires_finalizer: bool | None
    field_needs_change: bool | None
    old: ValueFilter | None
    new: ValueFilter | None
    owns: Sequence[Selector] | None = None


@dataclasses.dataclass(eq=False, repr=False)
class SpawningHandler(ResourceHandler):
    """The options of daemons and timers."""

    requires_finalizer: bool | None
    initial_delay: float | callbacks.DelayFn | None


@dataclasses.dataclass(eq=False, repr=False)
class DaemonHandler(SpawningHandler):
    """A daemon."""

    fn: callbacks.DaemonFn
    cancellation_backoff: float | None
    cancellation_timeout: float | None
    cancellation_polling: float | None

    def __str__(self) -> str:
        return f"Daemon {self.id!r}"


@dataclasses.dataclass(eq=False, repr=False)
class TimerHandler(SpawningHandler):
    """A timer."""

    fn: callbacks.TimerFn
    sharp: bool | None
    idle: float | None
    interval: float | None

    def __str__(self) -> str:
        return f"Timer {self.id!r}"
