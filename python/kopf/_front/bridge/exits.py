"""Limits of the exit: for blocked event loops, and for threads that do not end."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from kopf._front.bridge import threads, tracebacks

__all__ = ["code_of", "limit_threads", "own_process", "watch_loop"]

logger = logging.getLogger("kopf._core.reactor.running")

#: Time for tasks and threads to end, in addition to the exit timeout, in seconds.
HUNG = 5.0

#: Interval of checks that the loop of a stopping operator responds, in seconds.
PULSE = 1.0

#: Time for the last records and exit functions, which can be blocked as well, in seconds.
FAREWELL = 1.0

_is_own_process = False


def own_process() -> None:
    """Declares that the process belongs to the operator, and may be ended with it."""
    global _is_own_process
    _is_own_process = True


def watch_loop(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    exit_timeout: float,
    is_running: Callable[[], bool],
) -> None:
    """Ends the process with the code 1 if the loop of a stopping operator does not respond.

    The limit is that of tasks that do not end: the exit timeout and 5 seconds.
    """
    limit = max(0.0, exit_timeout) + HUNG

    def watch() -> None:
        while is_running():
            response = threading.Event()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(response.set)
                if not response.wait(limit) and is_running():
                    _abandon_loop(thread)
            time.sleep(PULSE)

    threading.Thread(target=watch, name="kopf-exit", daemon=True).start()


def _abandon_loop(thread: threading.Thread) -> NoReturn:
    # The blocked function may hold the lock of a stream or of a logger.
    _exit_later(1)
    frame = sys._current_frames().get(thread.ident or 0)
    record = logger.makeRecord(
        logger.name, logging.ERROR, __file__, 0,
        "The operator cannot stop: %s blocks the event loop. Blocking code belongs into sync "
        "handlers. Exiting at once.", (threads.handler_of(frame) or "a function",), None,
        sinfo=tracebacks.format_stack(frame) if frame is not None else None,
    )
    logger.handle(record)
    _exit(1)


def code_of(exc: BaseException) -> int:
    """Returns the exit code of a process that an exception has ended."""
    code = exc.code if isinstance(exc, SystemExit) else 1
    return code if isinstance(code, int) else 0 if code is None else 1


def limit_threads(code: int, limit: float) -> None:
    """Ends the process of an operator that has ended if threads of its functions run for longer.

    Other threads are the user's: the process waits for them, as usual.
    """
    if not _is_own_process:
        return

    def watch() -> None:
        # At least for threads that end by themselves now.
        time.sleep(max(limit, PULSE))
        while True:
            blocking = [one for one in threading.enumerate() if _is_blocking(one)]
            if blocking and all(_is_worker(one) for one in blocking):
                _exit_later(code)
                names = ", ".join(sorted(one.name for one in blocking))
                logger.warning("Threads of functions are abandoned: %s.", names)
                _exit(code)
            time.sleep(PULSE)

    threading.Thread(target=watch, name="kopf-exit", daemon=True).start()


def _is_blocking(thread: threading.Thread) -> bool:
    return not thread.daemon and thread is not threading.main_thread()


def _is_worker(thread: threading.Thread) -> bool:
    of_pools = getattr(concurrent.futures.thread, "_threads_queues", ())
    # In such a thread, a closing loop waits for its own pool.
    is_of_loop = thread.name.endswith("(_do_shutdown)")
    return isinstance(thread, threads.Worker) or thread in of_pools or is_of_loop


def _exit_later(code: int) -> None:
    timer = threading.Timer(FAREWELL, os._exit, (code,))
    timer.daemon = True
    timer.start()


def _exit(code: int) -> NoReturn:
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os._exit(code)
