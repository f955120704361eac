"""The call of the running handler, for functions that access it without arguments."""

from __future__ import annotations

import os
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import weakref
    from collections.abc import Mapping

    from kopf._front.objects.bodies import Body
    from kopf._front.objects.children import AppliedChild
    from kopf._front.bridge.bridge import Bridge
    from kopf._front.objects.causes import Cause
    from kopf._front.state.configuration import OperatorSettings
    from kopf._front.declare.handlers import Handler
    from kopf._front.objects.patches import Patch
    from kopf._front.declare.registries import ChangingRegistry
    from kopf._front.bridge.variables import Variables
    from kopf import _kopf
    from kopf._kopf import Call as NativeCall

__all__ = ["CurrentCall", "bridge_var", "call", "call_var", "post_event", "post_record"]


class CurrentCall:
    """One call of a handler."""

    __slots__ = (
        "before", "bridge", "cause", "handler", "is_forgetful", "native", "span", "subregistry",
        "unsent", "variables",
    )

    def __init__(
        self,
        bridge: Bridge,
        native: NativeCall,
        handler: Handler,
        cause: Cause,
        subregistry: ChangingRegistry | None,
    ) -> None:
        self.bridge = bridge
        self.native = native
        self.handler = handler
        self.cause = cause
        self.subregistry = subregistry
        self.span: Any = None
        #: The applied children that are not awaited yet, as long as the handler keeps them.
        self.unsent: weakref.WeakSet[AppliedChild] | None = None
        #: True if the handler has dropped a child without awaiting it.
        self.is_forgetful = False
        self.variables: Variables
        #: The context at the beginning of the call, or when its changes were kept.
        self.before: Context

    def abandon(self) -> bool:
        """Gives up the children that were not awaited; returns ``True`` if there are any."""
        unsent, self.unsent = list(self.unsent or ()), None
        for child in unsent:
            child.close()
        return self.is_forgetful or bool(unsent)

    @property
    def body(self) -> Body | None:
        """The object of the call; ``None`` in activities."""
        return getattr(self.cause, "body", None)

    @property
    def patch(self) -> Patch | None:
        """The patch of the cycle; ``None`` in activities."""
        return getattr(self.cause, "patch", None)

    @property
    def settings(self) -> OperatorSettings:
        """The settings of the operator."""
        return self.bridge.settings

    @property
    def logger(self) -> Any:
        """The logger of the object or of the activity."""
        return self.cause.logger


call_var: ContextVar[CurrentCall] = ContextVar("kopf_call")
"""The current call."""

bridge_var: ContextVar[Bridge] = ContextVar("kopf_bridge")
"""The bridge of the operator whose code runs."""


sandbox_kubeconfigs: dict[int, str | None] = {}
"""The kubeconfigs of the sandboxes of this process by their ids; ``None``: in the environment.

Operators log in to the last one.
"""


virtual_sandbox: _kopf.Sandbox | None = None
"""The sandbox whose virtual time operators of this process follow."""


page_var: ContextVar[Any] = ContextVar("kopf_page", default=None)
"""The sandbox with the page of the operator that is to be started."""


def call() -> CurrentCall:
    """Returns the current call; raises :class:`LookupError` outside of handlers."""
    try:
        return call_var.get()
    except LookupError:
        raise LookupError(
            "This function needs the current object and works only inside of handlers: call it in a "
            "handler, not in a thread or a task that the handler leaves behind."
        ) from None


def post_event(
    ref: Mapping[str, Any],
    *,
    type: str,
    reason: str,
    message: str,
    backoffs: object = None,
) -> None:
    """Posts a k8s-event by the operator of the current call; retries after the given delays.

    Raises :class:`LookupError` outside of an operator.
    """
    current = call_var.get(None)
    if current is None:
        raise LookupError("k8s-events can be posted only inside of handlers of an operator: "
                          "use the Kubernetes client to post them elsewhere.")
    if current.bridge.pid != os.getpid():
        raise RuntimeError(
            "k8s-events cannot be posted in a forked process: post them in the handler itself, "
            "when the process has returned its result."
        )
    current.native.post(dict(ref), type, reason, message, backoffs)


def post_record(ref: Mapping[str, Any], level: int, message: str) -> None:
    """Posts a log record as a k8s-event. Does nothing outside of handlers or in forked processes."""
    current = call_var.get(None)
    if current is not None and current.bridge.pid == os.getpid():
        current.native.post_record(dict(ref), level, message)
