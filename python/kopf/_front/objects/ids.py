"""Handler ids: the persistent names of handlers in annotations, statuses, logs and URLs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NewType

HandlerId = NewType("HandlerId", str)
"""The id of a handler in logs, statuses and annotations: ``create_fn``, ``fn/spec.field`` with a field,
``parent/child`` for sub-handlers. Progress records are stored by it, so a renamed handler is another
one; set ``id`` to keep it.
"""


def get_callable_id(c: Callable[..., Any]) -> str:
    """Returns the id of a function, method, lambda, partial or decorated function.

    Raises :class:`ValueError` for callables without a stable name, such as instances with
    ``__call__``: they need an explicit ``id=``.
    """
    if c is None:
        raise ValueError("Cannot build a persistent id of None: decorate a function, or pass id= explicitly.")
    if isinstance(c, functools.partial):
        return get_callable_id(c.func)
    wrapped = getattr(c, "__wrapped__", None)
    if wrapped is not None:
        return get_callable_id(wrapped)
    code = getattr(c, "__code__", None)
    if code is None:
        raise ValueError(f"Cannot get id of {c!r}. Use a function, or pass id= explicitly.")
    if getattr(c, "__name__", None) == "<lambda>":
        return f"lambda:{code.co_filename}:{code.co_firstlineno}"
    return str(getattr(c, "__qualname__", c.__name__))


def generate_id(
    fn: Callable[..., Any],
    id: str | None,
    prefix: str | None = None,
    suffix: str | None = None,
) -> HandlerId:
    """Returns the full handler id: the prefix, the own id, and the suffix, joined with slashes."""
    own = id if id is not None else get_callable_id(fn)
    if prefix:
        own = f"{prefix}/{own}"
    if suffix:
        own = f"{own}/{suffix}"
    return HandlerId(own)
