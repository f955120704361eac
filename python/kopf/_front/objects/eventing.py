"""Kubernetes events posted explicitly by handlers.

The functions work in handlers, daemons and timers. Elsewhere, they raise :class:`LookupError`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any, cast

from kopf._front.objects import current, dicts, thirdparty
from kopf._front.objects.bodies import Body, build_object_reference

Backoffs = float | Iterable[float] | None


def event(
    objs: Body | Iterable[Body],
    *,
    type: str,
    reason: str,
    message: str = "",
    backoffs: Backoffs = None,
) -> None:
    """Posts a Kubernetes event of any type, whatever the level of posting is.

    It returns at once, and the event is sent in the background. Handlers, daemons and timers can call it;
    elsewhere, it raises :class:`LookupError`.

    Arguments:

    - ``objs``: the object that the event is about, usually ``body``; or several in an iterable.
    - ``type``: ``Normal``, ``Warning``, or a type of your own.
    - ``reason``: a short CamelCase word, which ``kubectl get events`` shows in its own column.
    - ``message``: the text; longer ones are shortened to 1024 characters.
    - ``backoffs``: seconds between attempts if posting fails; by default,
      ``settings.posting.default_backoffs``.

    ::

        @kopf.on.create("kopfexamples")
        def create_fn(body, **_):
            kopf.event(body, type="Normal", reason="Planned", message="work begins on Monday")
    """
    _post(objs, type=type, reason=reason, message=message, backoffs=backoffs, level=None)


def info(
    objs: Body | Iterable[Body],
    *,
    reason: str,
    message: str = "",
    backoffs: Backoffs = None,
) -> None:
    """Posts a Kubernetes event of the type ``Normal``, unless ``settings.posting.level`` is above INFO.

    Arguments:

    - ``objs``: the object that the event is about, usually ``body``; or several in an iterable.
    - ``reason``: a short CamelCase word.
    - ``message``: the text.
    - ``backoffs``: seconds between attempts if posting fails; by default,
      ``settings.posting.default_backoffs``.

    ::

        @kopf.on.create("kopfexamples")
        def create_fn(body, **_):
            kopf.info(body, reason="Created", message="the volume is ready")
    """
    _post(objs, type="Normal", reason=reason, message=message, backoffs=backoffs,
          level=logging.INFO)


def warn(
    objs: Body | Iterable[Body],
    *,
    reason: str,
    message: str = "",
    backoffs: Backoffs = None,
) -> None:
    """Posts a Kubernetes event of the type ``Warning``, unless ``settings.posting.level`` is above WARNING.

    Arguments:

    - ``objs``: the object that the event is about, usually ``body``; or several in an iterable.
    - ``reason``: a short CamelCase word.
    - ``message``: the text.
    - ``backoffs``: seconds between attempts if posting fails; by default,
      ``settings.posting.default_backoffs``.

    ::

        @kopf.timer("kopfexamples", interval=60)
        def check(body, spec, **_):
            if spec.get("size", 0) > 100:
                kopf.warn(body, reason="Large", message="this costs more than you think")
    """
    _post(objs, type="Warning", reason=reason, message=message, backoffs=backoffs,
          level=logging.WARNING)


def exception(
    objs: Body | Iterable[Body],
    *,
    reason: str = "",
    message: str = "",
    exc: BaseException | None = None,
    backoffs: Backoffs = None,
) -> None:
    """Posts a Kubernetes event of the type ``Error`` about an exception.

    Arguments:

    - ``objs``: the object that the event is about, usually ``body``; or several in an iterable.
    - ``reason``: a short CamelCase word; by default, the class of the exception.
    - ``message``: the text before that of the exception; empty by default.
    - ``exc``: the exception; by default, the one that is being handled by ``except``.
    - ``backoffs``: seconds between attempts if posting fails; by default,
      ``settings.posting.default_backoffs``.

    ::

        @kopf.on.create("kopfexamples")
        def create_fn(body, spec, **_):
            try:
                int(spec["size"])
            except ValueError:
                kopf.exception(body, message="the size is ignored:")
    """
    error = exc if exc is not None else sys.exc_info()[1]
    if error is not None:
        reason = reason or error.__class__.__name__
        message = f"{message} {error}" if message else f"{error}"
    _post(objs, type="Error", reason=reason, message=message, backoffs=backoffs,
          level=logging.ERROR)


def _post(
    objs: Body | Iterable[Body],
    *,
    type: str,
    reason: str,
    message: str,
    backoffs: Backoffs,
    level: int | None,
) -> None:
    posting = current.call().settings.posting
    if not posting.enabled or (level is not None and level < posting.level):
        return
    for obj in dicts.walk(cast(Any, objs)):
        body: Any = obj.obj if isinstance(obj, thirdparty.PykubeObject) else obj
        ref = build_object_reference(body)
        current.post_event(ref, type=type, reason=reason, message=message, backoffs=backoffs)

