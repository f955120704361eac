"""Triggers of reconcile handlers, and their requests for another call."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math


class Trigger(str, enum.Enum):
    """A reason to call a reconcile handler. Equal to its name, so ``"created" in triggers`` works.

    ::

        @kopf.on.reconcile("kopfexamples", every=300)
        def sync(triggers: kopf.Triggers, logger, **_):
            if kopf.Trigger.PERIOD in triggers:
                logger.info("five minutes are over")
    """

    CREATED = "created"
    """The object has appeared while the operator was running."""
    UPDATED = "updated"
    """The object has changed, other than in its status and system metadata."""
    RESUMED = "resumed"
    """The operator has started, or this replica has taken over the object."""
    CHILD = "child"
    """An owned object was created, changed or deleted, or is not owned any more."""
    PERIOD = "period"
    """The period of the option ``every`` is over."""
    REQUEUED = "requeued"
    """The last call has returned a :class:`Requeue`."""
    REQUESTED = "requested"
    """A user has requested the call: ``kopf retrigger --handler``."""
    RETRIED = "retried"
    """The last call has failed. The reasons of that call are included as well."""
    DELETED = "deleted"
    """The object is being deleted; only with ``finalizer=True``."""

    def __str__(self) -> str:
        return str(self.value)


Triggers = frozenset[Trigger]
"""The reasons of one call of a reconcile handler: a set of :class:`kopf.Trigger`. Several reasons can
lead to one call.
"""


@dataclasses.dataclass(frozen=True)
class Requeue:
    """The result of a reconcile handler that requests another call, even if nothing changes.

    Arguments:

    - ``after``: the time until the call: seconds, or a ``datetime.timedelta``. Less than a second counts
      as a second. If another trigger comes first, the handler is called earlier, and the request is
      replaced by the result of that call.

    ::

        @kopf.on.reconcile("kopfexamples")
        def sync(**_):
            return kopf.Requeue(after=30)
    """

    after: float | datetime.timedelta

    def __post_init__(self) -> None:
        after = self.after
        if isinstance(after, bool) or not isinstance(after, int | float | datetime.timedelta):
            raise TypeError(f"invalid after {after!r}: must be a number of seconds or a timedelta")
        if math.isnan(self.seconds) or self.seconds < 0:
            raise ValueError(f"invalid after {after!r}: must not be negative")

    @property
    def seconds(self) -> float:
        """The time until the call, in seconds."""
        after = self.after
        return after.total_seconds() if isinstance(after, datetime.timedelta) else float(after)
