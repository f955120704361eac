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
    """Posts a Kubernetes event of any type. ``backoffs`` are the delays of retries in seconds."""
    _post(objs, type=type, reason=reason, message=message, backoffs=backoffs, level=None)


def info(
    objs: Body | Iterable[Body],
    *,
    reason: str,
    message: str = "",
    backoffs: Backoffs = None,
) -> None:
    """Posts a Kubernetes event of the type ``Normal``, unless the level of posting is higher."""
    _post(objs, type="Normal", reason=reason, message=message, backoffs=backoffs,
          level=logging.INFO)


def warn(
    objs: Body | Iterable[Body],
    *,
    reason: str,
    message: str = "",
    backoffs: Backoffs = None,
) -> None:
    """Posts a Kubernetes event of the type ``Warning``, unless the level of posting is higher."""
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
    """Posts a Kubernetes event of the type ``Error`` about the given or the current exception."""
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

