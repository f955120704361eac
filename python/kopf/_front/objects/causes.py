"""Causes of handling: the reasons of calls, and the keyword arguments that come from them."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import logging
from collections.abc import Iterable, Iterator
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from kopf._front.objects.bodies import Body, BodyEssence, RawEvent, RawEventType
from kopf._front.objects.diffs import EMPTY, Diff
from kopf._front.objects.ephemera import AnyMemo, Indices
from kopf._front.objects.ids import HandlerId
from kopf._front.objects.patches import Patch
from kopf._front.objects.records import Record
from kopf._front.objects.references import Resource
from kopf._front.objects.reviews import Headers, Operation, SSLPeer, UserInfo
from kopf._front.objects.triggers import Triggers

if TYPE_CHECKING:
    from kopf._front.state.configuration import OperatorSettings


Logger = logging.Logger | logging.LoggerAdapter[Any]
"""The type of the argument ``logger``: a logger or a logger adapter of :mod:`logging`.

Its records have the name of the object, and are posted as Kubernetes events according to
``settings.posting``.
"""


class Activity(enum.StrEnum):
    """Activities of the operator, which are not related to objects."""

    STARTUP = "startup"
    CLEANUP = "cleanup"
    AUTHENTICATION = "authentication"
    PROBE = "probe"


class WebhookType(enum.StrEnum):
    """Kinds of admission handlers."""

    VALIDATING = "validating"
    MUTATING = "mutating"


class Reason(enum.StrEnum):
    """Why an object is handled: the argument ``reason`` of change handlers, equal to ``"create"``,
    ``"update"``, ``"delete"`` and ``"resume"``. ``NOOP``, ``FREE`` and ``GONE`` have no handlers.

    ::

        @kopf.on.create("kopfexamples")
        @kopf.on.update("kopfexamples")
        def both(reason: kopf.Reason, **_):
            print("new" if reason == kopf.Reason.CREATE else "changed")
    """

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RESUME = "resume"
    NOOP = "noop"
    FREE = "free"
    GONE = "gone"


HANDLER_REASONS = (Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME)
REACTOR_REASONS = (Reason.NOOP, Reason.FREE, Reason.GONE)
ALL_REASONS = HANDLER_REASONS + REACTOR_REASONS

TITLES = {
    Reason.CREATE.value: "creation",
    Reason.UPDATE.value: "updating",
    Reason.DELETE.value: "deletion",
    Reason.RESUME.value: "resuming",
}


class Kwargable:
    """An object with keyword arguments for users' functions."""

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {}

    @property
    def _super_kwargs(self) -> dict[str, Any]:
        return {}

    @property
    def _sync_kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @property
    def _async_kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments of filters."""
        return {**self._kwargs, **self._super_kwargs}

    @property
    def sync_kwargs(self) -> dict[str, Any]:
        """Keyword arguments of plain functions."""
        return {**self._sync_kwargs, **self._super_kwargs}

    @property
    def async_kwargs(self) -> dict[str, Any]:
        """Keyword arguments of coroutine functions."""
        return {**self._async_kwargs, **self._super_kwargs}


@dataclasses.dataclass(eq=False, repr=False)
class Cause(Record, Kwargable):
    """The common base of causes."""

    logger: Logger

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {"logger": self.logger}


@dataclasses.dataclass(eq=False, repr=False)
class BaseCause(Cause):
    """A cause in an operator."""

    indices: Indices
    memo: AnyMemo

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {"logger": self.logger, "memo": self.memo}

    # Indices override all other arguments of the same name.
    @property
    def _super_kwargs(self) -> dict[str, Any]:
        return dict(self.indices)


@dataclasses.dataclass(eq=False, repr=False)
class ActivityCause(BaseCause):
    """An activity of the operator."""

    activity: Activity
    settings: OperatorSettings

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {**super()._kwargs, "activity": self.activity, "settings": self.settings}


@dataclasses.dataclass(eq=False, repr=False)
class ResourceCause(BaseCause):
    """A cause that is related to an object."""

    resource: Resource
    patch: Patch
    body: Body

    @property
    def _kwargs(self) -> dict[str, Any]:
        body = self.body
        meta = body.meta
        raw = meta._part()
        return {
            "logger": self.logger,
            "memo": self.memo,
            "resource": self.resource,
            "patch": self.patch,
            "body": body,
            "spec": body.spec,
            "meta": meta,
            "status": body.status,
            "uid": raw.get("uid"),
            "name": raw.get("name"),
            "namespace": raw.get("namespace"),
            "labels": meta.labels,
            "annotations": meta.annotations,
        }


@dataclasses.dataclass(eq=False, repr=False)
class IndexingCause(ResourceCause):
    """An object to index."""


@dataclasses.dataclass(eq=False, repr=False)
class WatchingCause(ResourceCause):
    """A watch event."""

    type: RawEventType
    event: RawEvent

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {**super()._kwargs, "type": self.type, "event": self.event}


@dataclasses.dataclass(eq=False, repr=False)
class ChildCause(ResourceCause):
    """A changed child of the object."""

    child: Body
    type: RawEventType

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {**super()._kwargs, "child": self.child, "type": self.type}


@dataclasses.dataclass(eq=False, repr=False)
class ReconcilingCause(ResourceCause):
    """An object to reconcile."""

    triggers: Triggers

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {**super()._kwargs, "triggers": self.triggers}


@dataclasses.dataclass(eq=False, repr=False)
class SpawningCause(ResourceCause):
    """An object whose daemons and timers are matched and spawned."""

    reset: bool


@dataclasses.dataclass(eq=False, repr=False)
class DaemonCause(ResourceCause):
    """A running daemon or timer."""

    stopper: Any

    @property
    def _sync_kwargs(self) -> dict[str, Any]:
        from kopf._front.objects.stoppers import SyncFlagWaiter
        return {**self._kwargs, "stopped": SyncFlagWaiter[Any](self.stopper)}

    @property
    def _async_kwargs(self) -> dict[str, Any]:
        from kopf._front.objects.stoppers import AsyncFlagWaiter
        return {**self._kwargs, "stopped": AsyncFlagWaiter[Any](self.stopper)}


@dataclasses.dataclass(eq=False, repr=False)
class ChangingCause(ResourceCause):
    """A change of an object: creation, update, deletion, or the operator's restart."""

    initial: bool
    reason: Reason
    diff: Diff = EMPTY
    old: BodyEssence | None = None
    new: BodyEssence | None = None

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {
            **super()._kwargs,
            "reason": self.reason,
            "diff": self.diff,
            "old": self.old,
            "new": self.new,
        }

    @property
    def deleted(self) -> bool:
        """Returns ``True`` if the object is being deleted."""
        return self.body.meta.deletion_timestamp is not None


@dataclasses.dataclass(eq=False, repr=False)
class WebhookCause(ResourceCause):
    """An admission review."""

    dryrun: bool
    reason: WebhookType | None
    webhook: HandlerId | None
    headers: Headers
    sslpeer: SSLPeer
    userinfo: UserInfo
    warnings: list[str]
    operation: Operation | None
    subresource: str | None
    old: Body | None = None
    new: Body | None = None
    diff: Diff | None = None

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {
            **super()._kwargs,
            "dryrun": self.dryrun,
            "headers": self.headers,
            "sslpeer": self.sslpeer,
            "userinfo": self.userinfo,
            "warnings": self.warnings,
            "operation": self.operation,
            "subresource": self.subresource,
            "old": self.old,
            "new": self.new,
            "diff": self.diff,
        }


cause_var: ContextVar[Cause] = ContextVar("cause_var")
"""The cause of the current call."""


@contextlib.contextmanager
def context(values: Iterable[tuple[ContextVar[Any], Any]]) -> Iterator[None]:
    """Sets context variables for the duration of a block."""
    tokens: list[tuple[ContextVar[Any], Token[Any]]] = []
    try:
        for var, value in values:
            tokens.append((var, var.set(value)))
        yield
    finally:
        for var, token in reversed(tokens):
            var.reset(token)
