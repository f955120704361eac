"""Calls of functions of users."""

from __future__ import annotations

import asyncio
import functools
import threading
from contextvars import ContextVar
from typing import Any

import kopf
from kopf._core.actions.invocation import context, invoke, is_async_fn

var: ContextVar[str] = ContextVar("var", default="")


async def afn(**kwargs: Any) -> Any:
    return threading.current_thread(), var.get(), kwargs


def fn(**kwargs: Any) -> Any:
    return threading.current_thread(), var.get(), kwargs


class AsyncCallable:
    async def __call__(self) -> None:
        pass


def test_async_functions_are_recognised() -> None:
    assert is_async_fn(afn)
    assert is_async_fn(functools.partial(afn, x=1))
    assert is_async_fn(functools.wraps(afn)(lambda **_: None))
    assert is_async_fn(AsyncCallable())
    assert not is_async_fn(fn)
    assert not is_async_fn(functools.partial(fn))
    assert not is_async_fn(None)


def test_async_functions_run_in_the_loop() -> None:
    with context([(var, "x")]):
        thread, value, kwargs = asyncio.run(invoke(afn, kwargs={"a": 1}))
    assert (thread, value, kwargs) == (threading.current_thread(), "x", {"a": 1})
    assert var.get() == ""


def test_sync_functions_run_in_the_executor() -> None:
    settings = kopf.OperatorSettings()
    with context([(var, "x")]):
        thread, value, kwargs = asyncio.run(invoke(fn, settings=settings, kwargs={"a": 1}))
    assert thread is not threading.current_thread()
    assert (value, kwargs) == ("x", {"a": 1})
    settings.execution.executor.shutdown()
