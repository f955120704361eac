"""Calls of users' functions from users' code, like the original's private ``invoke()``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kopf._front.objects.causes import Kwargable

if TYPE_CHECKING:
    from kopf._front.state.configuration import OperatorSettings


async def invoke(
    fn: Callable[..., Any],
    *,
    settings: OperatorSettings | None = None,
    kwargsrc: Kwargable | None = None,
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Calls a coroutine function in the loop, or a plain one in the executor of the settings.

    The arguments are those of the cause, and the additional ones.
    """
    if is_async_fn(fn):
        own = kwargsrc.async_kwargs if kwargsrc is not None else {}
        return await fn(**{**(kwargs or {}), **own})

    import asyncio
    import contextvars

    own = kwargsrc.sync_kwargs if kwargsrc is not None else {}
    call = functools.partial(fn, **{**(kwargs or {}), **own})
    context = contextvars.copy_context()
    executor = settings.execution.executor if settings is not None else None
    return await asyncio.get_running_loop().run_in_executor(executor, context.run, call)


def is_async_fn(fn: Callable[..., Any] | None) -> bool:
    """Returns ``True`` for coroutine functions, including partial and decorated ones."""
    if fn is None:
        return False
    if inspect.iscoroutinefunction(fn):
        return True
    if isinstance(fn, functools.partial):
        return is_async_fn(fn.func)
    wrapped = getattr(fn, "__wrapped__", None)
    if wrapped is not None:
        return is_async_fn(wrapped)
    return inspect.iscoroutinefunction(getattr(type(fn), "__call__", None))
