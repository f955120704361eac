"""Descriptions of handlers, as the engine reads them.

Every class has the fields of the Rust struct of the same name in `crates/kopf-python`, in the same
order, and every union has the variants of the Rust enum; a test of that crate compares them. It
loads this file alone, so nothing of the package is imported at run time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, Union

if TYPE_CHECKING:
    from kopf._front.declare.handlers import Handler

__all__ = ["Criterion", "HandlerDescription", "Kind", "SelectorDescription"]


@dataclasses.dataclass(frozen=True, slots=True)
class SelectorDescription:
    """A selector of resources."""

    group: str | None
    version: str | None
    kind: str | None
    plural: str | None
    singular: str | None
    shortcut: str | None
    category: str | None
    any_name: str | None
    everything: bool
    callable: Callable[..., object] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Present:
    """The value must exist."""


@dataclasses.dataclass(frozen=True, slots=True)
class Absent:
    """The value must not exist."""


@dataclasses.dataclass(frozen=True, slots=True)
class Callback:
    """The function must return a true value for the value."""

    function: Callable[..., object]


@dataclasses.dataclass(frozen=True, slots=True)
class Literal:
    """The value must be equal."""

    value: Any


Criterion: TypeAlias = Union[Present, Absent, Callback, Literal]


@dataclasses.dataclass(frozen=True, slots=True)
class TargetDescription:
    """The objects of a handler. Sub-handlers have no selector: they get the object of their parent."""

    selector: SelectorDescription | None
    labels: list[tuple[str, Criterion]]
    annotations: list[tuple[str, Criterion]]
    field: list[str] | None
    value: Criterion | None
    when: Callable[..., object] | None


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeDescription:
    """The properties that all change handlers have."""

    target: TargetDescription
    owns: list[SelectorDescription]
    old: Criterion | None
    new: Criterion | None


@dataclasses.dataclass(frozen=True, slots=True)
class ActivityKind:
    """A handler of an activity."""

    activity: str


@dataclasses.dataclass(frozen=True, slots=True)
class EventKind:
    """An event handler."""

    target: TargetDescription


@dataclasses.dataclass(frozen=True, slots=True)
class IndexKind:
    """An index handler."""

    target: TargetDescription


@dataclasses.dataclass(frozen=True, slots=True)
class ChildKind:
    """A child handler."""

    target: TargetDescription
    owns: list[SelectorDescription]


@dataclasses.dataclass(frozen=True, slots=True)
class CreateKind:
    """A handler of creations."""

    change: ChangeDescription


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateKind:
    """A handler of updates."""

    change: ChangeDescription


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteKind:
    """A handler of deletions."""

    change: ChangeDescription
    optional: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ResumeKind:
    """A handler of objects that exist when the operator starts."""

    change: ChangeDescription
    deleted: bool


@dataclasses.dataclass(frozen=True, slots=True)
class FieldKind:
    """A handler of a field."""

    change: ChangeDescription


@dataclasses.dataclass(frozen=True, slots=True)
class SubKind:
    """A sub-handler."""

    change: ChangeDescription
    needs_change: bool


@dataclasses.dataclass(frozen=True, slots=True)
class DaemonKind:
    """A daemon."""

    target: TargetDescription
    initial_delay: float | Callable[..., object] | None
    cancellation_backoff: float | None
    cancellation_timeout: float | None
    cancellation_polling: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class TimerKind:
    """A timer."""

    target: TargetDescription
    initial_delay: float | Callable[..., object] | None
    interval: float | None
    sharp: bool
    idle: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class ReconcileKind:
    """A reconcile handler."""

    target: TargetDescription
    owns: list[SelectorDescription]
    every: float | None
    finalizer: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ConvertKind:
    """A conversion handler, from the version ``source`` to the version ``destination``."""

    target: TargetDescription
    source: str
    destination: str
    persistent: bool


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookKind:
    """An admission handler. The review is ``"validating"`` or ``"mutating"``."""

    target: TargetDescription
    review: str
    operations: list[str] | None
    subresource: str | None
    persistent: bool
    side_effects: bool
    ignore_failures: bool


Kind: TypeAlias = Union[
    ActivityKind, EventKind, IndexKind, ChildKind, CreateKind, UpdateKind, DeleteKind, ResumeKind,
    FieldKind, SubKind, DaemonKind, TimerKind, ReconcileKind, ConvertKind, WebhookKind,
]


@dataclasses.dataclass(frozen=True, slots=True)
class HandlerDescription:
    """A handler."""

    kind: Kind
    handler: Handler
    id: str
    function: int
    is_async: bool
    errors: str | None
    timeout: float | None
    retries: int | None
    backoff: float | None
