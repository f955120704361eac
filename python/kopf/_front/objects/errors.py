"""Exceptions that handlers raise, and the treatment of other exceptions."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Mapping


class ErrorsMode(enum.Enum):
    """Treatment of exceptions that are neither temporary nor permanent errors of the framework."""

    IGNORED = 1
    """The handler counts as succeeded."""
    TEMPORARY = 2
    """The handler is retried after its backoff."""
    PERMANENT = 3
    """The handler counts as failed."""


class PermanentError(Exception):
    """A failure that retries cannot fix. The handler is not called again for the same cause."""


class TemporaryError(Exception):
    """A failure that a retry may fix.

    ``delay`` is in seconds; ``None`` and ``0`` retry as soon as possible.
    """

    def __init__(
        self,
        __msg: str | None = None,
        delay: float | None = 60,
    ) -> None:
        super().__init__(__msg)
        self.delay = delay


class ApplyError(Exception):
    """A child that was not applied. The message names the child and the other field managers."""


class HandlerTimeoutError(PermanentError):
    """The handler's ``timeout=`` is exceeded, counted from its first attempt."""


class HandlerRetriesError(PermanentError):
    """The handler's ``retries=`` are exhausted."""


class HandlerChildrenRetry(TemporaryError):
    """Some sub-handlers are unfinished. Raised by the framework to retry the parent handler."""


class AdmissionError(PermanentError):
    """A rejection of an admission request.

    ``message`` is shown to the API client. ``code`` is the HTTP status of the rejection.
    """

    def __init__(
        self,
        message: str | None = "",
        code: int | None = 500,
    ) -> None:
        super().__init__(message)
        self.code = code


class LoginError(Exception):
    """Authentication is impossible: there are no credentials, or none of them is accepted."""


class AccessError(Exception):
    """The API rejected or could not use the current credentials."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of the last call of a handler."""

    final: bool
    delay: float | None = None
    result: object | None = None
    exception: BaseException | None = None
    subrefs: Collection[str] = ()


class ActivityError(Exception):
    """An activity failed. ``outcomes`` maps handler ids to their outcomes."""

    def __init__(self, msg: str, *, outcomes: Mapping[str, Outcome]) -> None:
        super().__init__(msg)
        self.outcomes = outcomes


class WebhookError(Exception):
    """An admission review that cannot be served."""


class MissingDataError(WebhookError):
    """The admission review lacks mandatory fields."""


class UnknownResourceError(WebhookError):
    """The admission review is for a resource that the operator does not handle."""


class AmbiguousResourceError(WebhookError):
    """The admission review is for a resource that matches several known resources."""
