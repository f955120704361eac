"""The call of the running handler, for functions that need it without arguments."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kopf._front.bodies import Body
    from kopf._front.bridge import Bridge
    from kopf._front.causes import Cause
    from kopf._front.configuration import OperatorSettings
    from kopf._front.handlers import Handler
    from kopf._front.patches import Patch
    from kopf._front.registries import ChangingRegistry
    from kopf._kopf import Call as NativeCall

__all__ = ["CurrentCall", "bridge_var", "call", "call_var", "post_event", "post_record"]

INFO = 20
WARNING = 30
ERROR = 40
CRITICAL = 50


class CurrentCall:
    """One call of a handler."""

    __slots__ = ("bridge", "cause", "handler", "native", "span", "subregistry")

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


def call() -> CurrentCall:
    """Returns the current call; raises :class:`LookupError` outside of handlers."""
    try:
        return call_var.get()
    except LookupError:
        raise LookupError(
            "This function needs the current object and works only inside of handlers."
        ) from None


def post_event(
    ref: Mapping[str, Any],
    *,
    type: str,
    reason: str,
    message: str,
    backoffs: object = None,
) -> None:
    """Posts a k8s-event by the operator of the current call.

    Raises :class:`LookupError` outside of an operator.
    """
    current = call_var.get(None)
    if current is None:
        raise LookupError("k8s-events can be posted only inside of handlers of an operator.")
    current.native.post(dict(ref), type, reason, message)


def post_record(ref: Mapping[str, Any], level: int, message: str) -> None:
    """Posts a log record as a k8s-event. Does nothing outside of handlers."""
    current = call_var.get(None)
    if current is not None:
        type_ = (
            "Debug" if level < INFO else "Normal" if level < WARNING else
            "Warning" if level < ERROR else "Error" if level < CRITICAL else "Fatal"
        )
        current.native.post(dict(ref), type_, "Logging", message)
