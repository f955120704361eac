"""Flags of applications: events and futures of asyncio and threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Flag", "raise_flag", "watched"]

Flag = (
    asyncio.Future[Any]
    | asyncio.Event
    | concurrent.futures.Future[Any]
    | threading.Event
)


def raise_flag(flag: Flag | None) -> None:
    """Raises a flag of any kind."""
    match flag:
        case None:
            pass
        case asyncio.Event() | threading.Event():
            flag.set()
        case asyncio.Future() | concurrent.futures.Future():
            if not flag.done():
                flag.set_result(None)
        case _:
            raise TypeError(f"unsupported type of a flag: {type(flag).__qualname__}; use an Event or a Future of "
                            f"asyncio, threading or concurrent.futures")


@contextlib.contextmanager
def watched(
    loop: asyncio.AbstractEventLoop, flag: Flag | None, on_raised: Callable[[Any], None],
) -> Iterator[None]:
    """Calls the function in the loop with the value of the flag when it is raised."""
    def callback() -> None:
        on_raised(_value(flag))

    match flag:
        case None:
            yield
        case asyncio.Event():
            with _task(loop, flag, callback):
                yield
        case asyncio.Future():
            def on_done(_: Any) -> None:
                callback()

            flag.add_done_callback(on_done)
            try:
                yield
            finally:
                flag.remove_done_callback(on_done)
        case concurrent.futures.Future():
            with _once(loop, callback) as notify:
                flag.add_done_callback(lambda _: notify())
                yield
        case threading.Event():
            with _thread(loop, flag, callback):
                yield
        case _:
            raise TypeError(f"unsupported type of a flag: {type(flag).__qualname__}; use an Event or a Future of "
                            f"asyncio, threading or concurrent.futures")


def _value(flag: Flag | None) -> Any:
    """Returns the value of a raised flag: ``True`` for events, the result of a future."""
    if not isinstance(flag, asyncio.Future | concurrent.futures.Future):
        return True
    return None if flag.cancelled() or flag.exception() is not None else flag.result()


@contextlib.contextmanager
def _task(
    loop: asyncio.AbstractEventLoop, flag: asyncio.Event, callback: Callable[[], None],
) -> Iterator[None]:
    async def wait() -> None:
        await flag.wait()
        callback()

    task = loop.create_task(wait(), name="kopf stop-flag")
    try:
        yield
    finally:
        task.cancel()


@contextlib.contextmanager
def _once(
    loop: asyncio.AbstractEventLoop, callback: Callable[[], None],
) -> Iterator[Callable[[], None]]:
    """Yields a function that calls the other one in the loop, until the block ends."""
    is_over = threading.Event()

    def call() -> None:
        if not is_over.is_set():
            callback()

    def notify() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call)

    try:
        yield notify
    finally:
        is_over.set()


@contextlib.contextmanager
def _thread(
    loop: asyncio.AbstractEventLoop, flag: threading.Event, callback: Callable[[], None],
) -> Iterator[None]:
    is_over = threading.Event()

    def wait() -> None:
        while not flag.wait(0.25):
            if is_over.is_set():
                return
        notify()

    with _once(loop, callback) as notify:
        thread = threading.Thread(target=wait, name="kopf-stop-flag", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
