"""Exceptions that handlers raise, and the treatment of other exceptions."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class ErrorsMode(enum.Enum):
    """What it means if a handler raises another exception than the errors of Kopf.

    For the option ``errors`` of decorators. The default is ``TEMPORARY``, except for index handlers
    (``IGNORED``) and probes (``PERMANENT``)::

        @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT)
        def create_fn(**_):
            raise ValueError("not retried")
    """

    IGNORED = 1
    """The handler counts as succeeded."""
    TEMPORARY = 2
    """The handler is retried after its backoff."""
    PERMANENT = 3
    """The handler counts as failed."""


class PermanentError(Exception):
    """A failure that a retry cannot fix: the handler is not called again for the same change.

    Raise it if waiting does not help, for example if the object is wrong. The next change of the object
    calls the handler again::

        @kopf.on.create("kopfexamples")
        def create_fn(spec, **_):
            if "duration" not in spec:
                raise kopf.PermanentError("spec.duration is missing")
    """


class TemporaryError(Exception):
    """A failure that time may fix: the handler is called again after the delay.

    Arguments:

    - ``message``: what is wrong; shown in the log, in events, and by ``kopf explain``.
    - ``delay``: seconds until the next attempt; 60 by default. ``None`` and ``0`` retry as soon as
      possible.

    ::

        @kopf.on.create("kopfexamples")
        def create_fn(retry, **_):
            if retry < 3:
                raise kopf.TemporaryError("the database is not ready", delay=10)
    """

    def __init__(
        self,
        __msg: str | None = None,
        delay: float | None = 60,
    ) -> None:
        super().__init__(__msg)
        self.delay = delay


class FieldConflict(NamedTuple):
    """A field of an applied child that another client owns, as in :attr:`kopf.ApplyError.conflicts`::

        conflict = kopf.FieldConflict(field=".spec.replicas", manager='"kubectl" using apps/v1')
        assert conflict.field == ".spec.replicas"
    """

    field: str
    """The path of the field, such as ``.spec.replicas``."""
    manager: str
    """The other manager, as the server describes it."""


class ApplyError(Exception):
    """A child that :func:`kopf.apply_child` could not apply. The message names the child.

    Arguments:

    - ``message``: what has failed; begins with the kind and name of the child.
    - ``code``: the HTTP status of the response, such as 403; ``None`` if there was none.
    - ``reason``: that of the response, such as ``"Forbidden"``, ``"Invalid"`` or ``"Conflict"``; without
      a response, ``"InvalidManifest"`` for an unsuitable manifest, ``"UnknownKind"`` for a kind that the
      server does not serve, and ``None`` if the server could not be reached.
    - ``conflicts``: the fields that other managers own, as :class:`kopf.FieldConflict`. Leave these
      fields out of the manifest, or take them over with ``force=True``.

    ::

        @kopf.on.update("kopfexamples")
        def change(logger, **_):
            try:
                kopf.apply_child({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}})
            except kopf.ApplyError as error:
                logger.info(f"{error.reason}: {[conflict.field for conflict in error.conflicts]}")
                raise
    """

    def __init__(
        self,
        message: str = "",
        *,
        code: int | None = None,
        reason: str | None = None,
        conflicts: Iterable[FieldConflict] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.conflicts: tuple[FieldConflict, ...] = tuple(conflicts)


class HandlerTimeoutError(PermanentError):
    """The ``timeout`` of a handler is exceeded, counted from its first attempt. Kopf raises it for you.

    It is a :class:`kopf.PermanentError`, so the handler is not called again for the same change. Async
    handlers are cancelled; functions in threads cannot be interrupted, and are not called again::

        @kopf.on.create("kopfexamples", timeout=600)
        def create_fn(**_):
            raise kopf.TemporaryError("not yet", delay=60)  # fails after ten minutes
    """


class HandlerRetriesError(PermanentError):
    """The ``retries`` of a handler are exhausted. Kopf raises it for you.

    It is a :class:`kopf.PermanentError`, so the handler is not called again for the same change::

        @kopf.on.create("kopfexamples", retries=3)
        def create_fn(**_):
            raise kopf.TemporaryError("not yet", delay=60)  # fails after the third attempt
    """


class HandlerChildrenRetry(TemporaryError):
    """Some sub-handlers are unfinished. Raised by the framework to retry the parent handler."""


class AdmissionError(PermanentError):
    """A denial of a request, raised by handlers of :func:`kopf.on.validate` and :func:`kopf.on.mutate`.

    Arguments:

    - ``message``: shown to the client, for example by kubectl.
    - ``code``: the HTTP status of the denial; 500 by default.

    ::

        @kopf.on.validate("kopfexamples")
        def check(spec, **_):
            if spec.get("size", 0) < 0:
                raise kopf.AdmissionError("spec.size must not be negative", code=422)
    """

    def __init__(
        self,
        message: str | None = "",
        code: int | None = 500,
    ) -> None:
        super().__init__(message)
        self.code = code


class LoginError(Exception):
    """No credentials for the cluster: there are none, or the server accepts none of them.

    Login handlers raise it to say why; the operator then exits with the message::

        import os

        @kopf.on.login()
        def login_fn(**_):
            if "TOKEN" not in os.environ:
                raise kopf.LoginError("the variable TOKEN is not set")
            return kopf.ConnectionInfo(server="https://10.0.0.1:6443", token=os.environ["TOKEN"])
    """


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
