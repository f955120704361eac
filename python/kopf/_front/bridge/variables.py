"""Context variables of handlers, and the names of their tasks, as in the original.

The original calls the async handlers of an object one after another in one task, so a variable that
one of them sets is seen by the next ones, until the object is idle for a while. Here, every call has
its own task and its own context. The changes of a call are copied to the next ones when it ends.
"""

from __future__ import annotations

import contextvars
import time
from typing import TYPE_CHECKING

from kopf._front.objects.causes import cause_var
from kopf._front.objects.current import bridge_var, call_var
from kopf._front.declare.handlers import ActivityHandler, Handler, SpawningHandler, WebhookHandler

if TYPE_CHECKING:
    from kopf._front.objects.current import CurrentCall
    from kopf._kopf import Call as NativeCall

__all__ = ["Variables", "keep", "shared_by", "task_name"]

#: The key of the variables of all handlers of an object, except for daemons and timers.
_OBJECT = ""

#: Variables of single calls. They refer to the call, which must be released.
_OF_CALLS: tuple[contextvars.ContextVar[object], ...] = (
    call_var, cause_var, bridge_var,  # type: ignore[assignment]
)

_ACTIVITIES = {
    "startup": "startup/cleanup activities",
    "cleanup": "startup/cleanup activities",
    "authentication": "credentials retriever",
}


class Variables:
    """Context variables that several calls share: those of one object, runner or activity."""

    __slots__ = ("context", "used")

    def __init__(self, context: contextvars.Context) -> None:
        #: Never changed: replaced by changed copies.
        self.context = context
        self.used = time.monotonic()

    def keep(self, before: contextvars.Context) -> bool:
        """Copies the changes of the current context since the beginning of the call, if any."""
        self.used = time.monotonic()
        changes = [
            (variable, value) for variable, value in contextvars.copy_context().items()
            if variable not in _OF_CALLS
            and (variable not in before or before[variable] is not value)
        ]
        if changes:
            context = self.context.copy()
            for variable, value in changes:
                context.run(variable.set, value)
            self.context = context
        return bool(changes)


def shared_by(call: CurrentCall) -> Variables:
    """Returns the variables that a call shares with others."""
    native, handler, bridge = call.native, call.handler, call.bridge
    if isinstance(handler, ActivityHandler):
        name = task_name(native, handler) or ""
        return bridge.variables.setdefault(name, Variables(bridge.context))
    known: dict[str, Variables] | None = native.variables
    if known is None:
        return Variables(bridge.context)
    of_object = known.get(_OBJECT)
    idle_timeout = bridge.settings.queueing.idle_timeout
    if of_object is None or time.monotonic() - of_object.used > idle_timeout:
        of_object = Variables(bridge.context)
    if not isinstance(handler, SpawningHandler):
        return of_object
    # Daemons and timers inherit the variables of the handlers before them, and keep their own.
    return known.get(str(handler.id)) or Variables(of_object.context)


def keep(call: CurrentCall) -> None:
    """Keeps the variables that an async handler has set so far, for the next calls."""
    if not call.native.is_async or not call.variables.keep(call.before):
        return
    call.before = call.variables.context
    if not isinstance(call.handler, ActivityHandler):
        is_runner = isinstance(call.handler, SpawningHandler)
        key = str(call.handler.id) if is_runner else _OBJECT
        known = call.native.variables or {}
        call.native.variables = {**known, key: call.variables}


def task_name(native: NativeCall, handler: Handler) -> str | None:
    """Returns the name of the task in which the original calls a handler."""
    if isinstance(handler, ActivityHandler):
        return _ACTIVITIES.get(native.activity or "")
    if isinstance(handler, SpawningHandler):
        return f"runner of {handler.id}"
    if isinstance(handler, WebhookHandler):
        return None
    return f"worker for {(native.resource, native.reference['uid'])}"
