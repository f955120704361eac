"""The historical path of errors, handlers and the current cause."""

from __future__ import annotations

from kopf._front.errors import (
    ErrorsMode,
    HandlerChildrenRetry,
    HandlerRetriesError,
    HandlerTimeoutError,
    Outcome,
    PermanentError,
    TemporaryError,
)
from kopf._front.handlers import (
    Handler,
)
from kopf._front.causes import (
    Cause,
    cause_var,
)
from kopf._front.registries import (
    handler_var,
)
from kopf._front.lifecycles import (
    LifeCycleFn,
    State,
)
from kopf._front.callbacks import (
    Logger,
)

__all__ = [
    "Cause",
    "cause_var",
    "ErrorsMode",
    "Handler",
    "handler_var",
    "HandlerChildrenRetry",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "LifeCycleFn",
    "Logger",
    "Outcome",
    "PermanentError",
    "State",
    "TemporaryError",
]
