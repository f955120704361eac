"""Signals that stop operators."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import os
import signal
import socket
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["handled"]

logger = logging.getLogger("kopf._core.reactor.running")

#: Time within which a repeated signal is ignored, in seconds: some programs, such as `timeout`, send
#: it to the process and to its group.
ECHO = 0.1


@contextlib.contextmanager
def handled(callback: Callable[[str], None], *, replace: bool | None = None) -> Iterator[None]:
    """Handles termination signals in the main thread while the operator runs.

    By default, only default handlers are replaced: an application keeps its own ones. With
    ``replace``, all handlers are replaced, or none.
    """
    if replace is False:
        yield
        return
    if threading.current_thread() is not threading.main_thread():
        logger.warning("OS signals are ignored: running not in the main thread.")
        yield
        return
    _shared.add(callback, is_forced=bool(replace))
    try:
        yield
    finally:
        _shared.remove(callback)


class _Shared:
    """The signal handlers of all operators in the main thread.

    They are installed with the first operator, and replaced by the former ones after the last one,
    in whichever order the operators end. The first signal stops all of them, the second one ends
    the process with the exit code 1.

    Signals are received in three ways, and the first one counts. Handlers of `signal` need the main
    thread to execute bytecode. Handlers of the loop are called even if code of the operator
    replaces those of `signal`, for example in a startup handler, as in the original. The thread
    of `_Wakeups` notices signals that arrive right before a function blocks the loop.
    """

    def __init__(self) -> None:
        self._callbacks: list[Callable[[str], None]] = []
        self._former: dict[int, Any] = {}
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}
        self._wakeups: _Wakeups | None = None
        # Reentrant: a handler of `signal` can interrupt that of the loop.
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._seen: collections.Counter[tuple[str, int]] = collections.Counter()
        self._counted: collections.Counter[int] = collections.Counter()
        self._times: dict[int, float] = {}
        self._effective = 0

    def add(self, callback: Callable[[str], None], *, is_forced: bool) -> None:
        """Handles the signals, unless the application does."""
        self._callbacks.append(callback)
        self._forget()
        kept = []
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None or number in self._former:
                continue
            if _is_replaceable(number, is_forced):
                self._install(number)
            else:
                kept.append(name)
        if kept:
            logger.debug("Signals are left to the application: %s.", ", ".join(kept))
        if self._wakeups is None and self._former:
            self._wakeups = _Wakeups(self._on_signal_in_thread)

    def _install(self, number: int) -> None:
        former = self._former[number] = signal.getsignal(number)
        if _is_default(former) or not _is_of_loop(former):
            loop = asyncio.get_running_loop()
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self._receive, "loop", number)
                self._loops[number] = loop
        signal.signal(number, self._on_signal)

    def remove(self, callback: Callable[[str], None]) -> None:
        """Restores the former handlers after the last operator."""
        self._callbacks.remove(callback)
        if self._callbacks:
            return
        if self._wakeups is not None:
            self._wakeups.close()
            self._wakeups = None
        former, self._former = self._former, {}
        loops, self._loops = self._loops, {}
        for number, handler in former.items():
            current = signal.getsignal(number)
            if number in loops and not loops[number].is_closed():
                loops[number].remove_signal_handler(number)
            # Keeps a handler that the application has installed meanwhile.
            restored = handler if current == self._on_signal else current
            signal.signal(number, restored if restored is not None else signal.SIG_DFL)

    def _on_signal(self, number: int, frame: types.FrameType | None) -> None:
        self._receive("main", number)

    def _on_signal_in_thread(self, number: int) -> None:
        if number in self._former:
            self._receive("thread", number)

    def _receive(self, source: str, number: int) -> None:
        with self._lock:
            self._seen[source, number] += 1
            if self._seen[source, number] <= self._counted[number]:
                return  # counted by another source
            self._counted[number] = self._seen[source, number]
            now = time.monotonic()
            before = self._times.get(number)
            self._times[number] = now
            if before is not None and now - before < ECHO:
                return
            self._effective += 1
            is_repeated = self._effective > 1
        if is_repeated:
            os._exit(1)
        for callback in list(self._callbacks):
            callback(signal.Signals(number).name)


class _Wakeups:
    """A thread that gets the numbers of all signals, and passes them on to the loop."""

    def __init__(self, callback: Callable[[int], None]) -> None:
        self._callback = callback
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._former = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._run, name="kopf-signals", daemon=True).start()

    def close(self) -> None:
        """Restores the former descriptor, and ends the thread."""
        current = signal.set_wakeup_fd(self._former, warn_on_full_buffer=False)
        if current != self._writer.fileno():
            signal.set_wakeup_fd(current, warn_on_full_buffer=False)
        self._writer.close()

    def _run(self) -> None:
        with self._reader:
            while data := self._reader.recv(64):
                if self._former >= 0:
                    with contextlib.suppress(OSError):
                        os.write(self._former, data)
                for number in data:
                    self._callback(number)


_shared = _Shared()


def _is_replaceable(number: int, is_forced: bool) -> bool:
    handler = signal.getsignal(number)
    if handler is signal.SIG_IGN and number == getattr(signal, "SIGHUP", None):
        # Under `nohup`, programs survive the end of their terminal.
        return False
    return is_forced or _is_default(handler)


def _is_default(handler: Any) -> bool:
    """Returns ``True`` for the handlers of Python itself, such as that of `asyncio.run()`."""
    if handler is signal.SIG_DFL or handler is signal.default_int_handler:
        return True
    method = getattr(handler, "func", None)  # `asyncio.Runner` installs a partial of its method
    return isinstance(getattr(method, "__self__", None), asyncio.Runner)


def _is_of_loop(handler: Any) -> bool:
    """Returns ``True`` for the placeholder of a handler that was added to a loop."""
    return str(getattr(handler, "__module__", "")).partition(".")[0] in ("asyncio", "uvloop")
