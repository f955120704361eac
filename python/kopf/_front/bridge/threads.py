"""Threads of sync daemons and timers."""

from __future__ import annotations

import collections
import concurrent.futures
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._front.declare.handlers import Handler

__all__ = ["ShrinkingExecutor", "Worker", "handler_of"]

#: Time for which a thread waits for the next function before it ends, in seconds.
IDLE_TIMEOUT = 2.0


class Worker(threading.Thread):
    """A thread of :class:`ShrinkingExecutor`."""


class ShrinkingExecutor(concurrent.futures.Executor):
    """An executor whose threads end when there is nothing to do.

    Threads of `concurrent.futures.ThreadPoolExecutor` never end: after a peak of daemons, hundreds
    of them would remain.
    """

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._changed = threading.Condition()
        self._waiting: collections.deque[_Item] = collections.deque()
        self._threads = 0
        self._idle = 0
        self._is_shut_down = False

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any,
    ) -> concurrent.futures.Future[Any]:
        """Calls the function in a thread: an idle one, a new one, or the next one that is free."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._changed:
            if self._is_shut_down:
                raise RuntimeError("the operator has ended, so no function can be started")
            if self._idle <= len(self._waiting) and self._threads < self._max_workers:
                Worker(target=self._work, name="kopf-daemon").start()
                self._threads += 1
            self._waiting.append((future, fn, args, kwargs))
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends idle threads now, and the other ones after their functions."""
        with self._changed:
            self._is_shut_down = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (item := self._next()) is not None:
            future, fn, args, kwargs = item
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as exc:
                future.set_exception(exc)
            del item, future, fn, args, kwargs

    def _next(self) -> _Item | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._is_shut_down, IDLE_TIMEOUT)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None


_Item = tuple[concurrent.futures.Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def handler_of(frame: types.FrameType | None) -> Handler | None:
    """Returns the handler whose code runs in the innermost frames of a thread."""
    from kopf._front.objects.current import CurrentCall

    while frame is not None:
        call = frame.f_locals.get("call") if frame.f_code.co_name.startswith("_run_") else None
        if isinstance(call, CurrentCall):
            return call.handler
        frame = frame.f_back
    return None
