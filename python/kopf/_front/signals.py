"""Signals that stop an operator."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["handled"]

logger = logging.getLogger("kopf._core.reactor.running")


@contextlib.contextmanager
def handled(callback: Callable[[str], None]) -> Iterator[None]:
    """Handles termination signals in the main thread; restores the former handlers at the end.

    The first signal stops the operator, the second one ends the process with the exit code 1.
    Handlers of `signal` are used instead of those of the loop, so that the second signal ends the
    process even if a function blocks the loop.
    """
    if threading.current_thread() is not threading.main_thread():
        logger.warning("OS signals are ignored: running not in the main thread.")
        yield
        return

    received = 0

    def on_signal(number: int, frame: types.FrameType | None) -> None:
        nonlocal received
        received += 1
        if received == 1:
            callback(signal.Signals(number).name)
        else:
            os._exit(1)

    former: dict[int, Any] = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Under `nohup`, SIGHUP is ignored, so that programs survive the end of the terminal.
        is_kept = name == "SIGHUP" and number and signal.getsignal(number) is signal.SIG_IGN
        if number is not None and not is_kept:
            former[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in former.items():
            if signal.getsignal(number) is on_signal:
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
