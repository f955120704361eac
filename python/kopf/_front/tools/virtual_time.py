"""Virtual time of a sandbox: the event loop of its operator, and the advance of the time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import sys
import time
import types
from typing import TYPE_CHECKING

from kopf._front.bridge import running

if TYPE_CHECKING:
    from kopf import _kopf

__all__ = ["VirtualLoop", "VirtualTimeError", "advance"]

#: The descriptors of a loop without connections: its own for threads, and that of the engine.
OWN_DESCRIPTORS = 2

#: The time of the system for which a loop with connections waits for data before it is idle, in
#: seconds.
GRACE = 0.01

#: The interval of checks for functions that do not follow virtual time, in seconds of the system.
CHECK_INTERVAL = 0.5


class VirtualTimeError(RuntimeError):
    """Virtual time that cannot pass, because a function waits in real time. The message names the handler
    and its line. Raised by :meth:`kopf.testing.sandbox.advance`; ``patience`` waits longer.
    """


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers follow the time of a sandbox. Without it, they follow real time."""

    def __init__(self, virtual: _kopf.Sandbox) -> None:
        self.virtual = virtual
        self._last = (virtual.now(), time.monotonic())
        super().__init__(_IdleSelector(virtual))

    def time(self) -> float:
        """Returns the virtual time in seconds."""
        try:
            self._last = (self.virtual.now(), time.monotonic())
        except RuntimeError:  # the sandbox is stopped
            return self._last[0] + time.monotonic() - self._last[1]
        return self._last[0]

    def _write_to_self(self) -> None:
        # The loop is busy from now on, not only when it has read what wakes it.
        with contextlib.suppress(RuntimeError):
            self.virtual.set_loop_busy()
        super()._write_to_self()  # type: ignore[misc]


class _IdleSelector(selectors.DefaultSelector):
    """A selector that reports when its loop has nothing to do."""

    def __init__(self, virtual: _kopf.Sandbox) -> None:
        super().__init__()
        self._virtual = virtual

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if ready := super().select(0):
            return ready
        if len(self.get_map()) > OWN_DESCRIPTORS and (ready := super().select(GRACE)):
            return ready
        try:
            self._virtual.set_loop_idle(timeout)
        except RuntimeError:  # the sandbox is stopped
            return super().select(timeout)
        try:
            return super().select(timeout)
        finally:
            with contextlib.suppress(RuntimeError):
                self._virtual.set_loop_busy()


def advance(virtual: _kopf.Sandbox, seconds: float, patience: float) -> None:
    """Lets the time pass.

    Raises `VirtualTimeError` if a function does not end or wait in `patience` seconds of real time.
    """
    _verify_thread(virtual)
    virtual.begin_advance(seconds)
    try:
        last, since = virtual.now(), time.monotonic()
        while not virtual.wait_advance(CHECK_INTERVAL):
            now = virtual.now()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > patience and (culprit := _culprit(virtual)):
                raise VirtualTimeError(
                    f"virtual time does not pass: {culprit}, in real time, for more than {patience:g} "
                    f"seconds; wait by stopped.wait(), or by asyncio.sleep() in async functions, which "
                    f"follow virtual time"
                )
    except BaseException:
        virtual.cancel_advance()
        raise


def _verify_thread(virtual: _kopf.Sandbox) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if getattr(loop, "virtual", None) is virtual:
        raise RuntimeError(
            "cluster.advance() would block the event loop of the operator: use "
            "`await asyncio.to_thread(cluster.advance, seconds)`"
        )


def _culprit(virtual: _kopf.Sandbox) -> str | None:
    """Describes the function that keeps the time from passing; `None` if there is none."""
    threads, is_loop_idle = virtual.activity()
    frames = sys._current_frames()
    operators = [one for one in list(running._running) if one.bridge.virtual is virtual]
    for operator in operators:
        for call, thread in list(operator.bridge.threads.items()) if threads else ():
            where = _location(frames.get(thread or 0))
            return f"handler '{call.handler.id}' runs in a thread ({where})"
        if not is_loop_idle:
            return f"the event loop is blocked ({_location(frames.get(operator.thread.ident or 0))})"
    return None


def _location(frame: types.FrameType | None) -> str:
    """Returns the innermost line outside of the standard library."""
    library = os.path.dirname(os.__file__)
    inner = frame
    while frame is not None and frame.f_code.co_filename.startswith(library):
        frame = frame.f_back
    frame = frame or inner
    return "not started" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
