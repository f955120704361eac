"""The ``stopped`` flag of daemons and timers."""

from __future__ import annotations

import enum
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio


class DaemonStoppingReason(enum.Flag):
    """Why a daemon is stopped: ``stopped.reason``. Reasons add up, so test for one of them with ``in``.

    ::

        @kopf.daemon("kopfexamples")
        def monitor(stopped: kopf.DaemonStopped, logger, **_):
            stopped.wait()
            if kopf.DaemonStoppingReason.RESOURCE_DELETED in stopped.reason:
                logger.info("the object is being deleted")
    """

    DONE = enum.auto()
    """The daemon has exited."""
    FILTERS_MISMATCH = enum.auto()
    """The object does not match the filters any more."""
    RESOURCE_DELETED = enum.auto()
    """The object is being deleted."""
    OPERATOR_PAUSING = enum.auto()
    """The operator is paused by peering."""
    OPERATOR_EXITING = enum.auto()
    """The operator is exiting."""
    DAEMON_SIGNALLED = enum.auto()
    """The daemon is expected to exit by itself."""
    DAEMON_CANCELLED = enum.auto()
    """The daemon is cancelled."""
    DAEMON_ABANDONED = enum.auto()
    """The daemon is abandoned."""


FlagReasonT = TypeVar("FlagReasonT", bound=enum.Flag)


class NativeFlag(Protocol):
    """The stop flag of the engine."""

    def is_set(self) -> bool: ...

    def reason(self) -> int: ...

    def wait_blocking(self, timeout: float | None) -> bool: ...

    def wait_async(self, timeout: float | None) -> asyncio.Future[bool]: ...


class FlagWaiter(Generic[FlagReasonT]):
    """A boolean-like flag with the methods to check and to await it.

    ``wait()`` blocks in sync functions, and must be awaited in async functions. It returns the
    flag itself when the flag is set or the timeout (in seconds) has passed.
    """

    __slots__ = ("_flag",)

    def __init__(self, flag: NativeFlag) -> None:
        self._flag = flag

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}: {self.is_set()}, reason={self.reason}>"

    def __bool__(self) -> bool:
        return self._flag.is_set()

    def is_set(self) -> bool:
        """Returns ``True`` if the daemon must stop."""
        return self._flag.is_set()

    @property
    def reason(self) -> DaemonStoppingReason | None:
        """The reasons for stopping; ``None`` if the flag is not set."""
        bits = self._flag.reason()
        return DaemonStoppingReason(bits) if bits else None

    # Both methods exist for type checkers: handlers annotate the flag as DaemonStopped and call
    # either `stopped.wait(…)` or `await stopped.wait(…)`.
    def wait(self, timeout: float | None = None) -> FlagWaiter[FlagReasonT]:
        """Waits for the flag, but at most for the timeout in seconds."""
        raise NotImplementedError("use the flag `stopped` that the daemon gets")

    def __await__(self) -> Generator[None, None, FlagWaiter[FlagReasonT]]:
        raise NotImplementedError("await `stopped.wait()` instead of `stopped`")


class SyncFlagWaiter(FlagWaiter[FlagReasonT], Generic[FlagReasonT]):
    """The flag for functions in threads."""

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> SyncFlagWaiter[FlagReasonT]:
        """Blocks until the flag is set, but at most for the timeout in seconds."""
        self._flag.wait_blocking(timeout)
        return self


class AsyncFlagWaiter(FlagWaiter[FlagReasonT], Generic[FlagReasonT]):
    """The flag for coroutines."""

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> AsyncFlagPromise[FlagReasonT]:
        """Returns an awaitable that ends when the flag is set or after the timeout in seconds."""
        return AsyncFlagPromise(self, timeout=timeout)


class AsyncFlagPromise(FlagWaiter[FlagReasonT], Generic[FlagReasonT]):
    """An awaitable wait for the flag. Without awaiting, it behaves as the flag."""

    __slots__ = ("_timeout", "_waiter")

    def __init__(self, waiter: AsyncFlagWaiter[FlagReasonT], *, timeout: float | None) -> None:
        super().__init__(waiter._flag)
        self._waiter = waiter
        self._timeout = timeout

    def __await__(self) -> Generator[Any, None, AsyncFlagWaiter[FlagReasonT]]:
        if not self._flag.is_set():
            yield from self._flag.wait_async(self._timeout).__await__()
        return self._waiter


DaemonStopped = FlagWaiter[DaemonStoppingReason]
"""The type of the argument ``stopped``, in functions of either kind.

It is true when the daemon must return. ``stopped.wait(seconds)`` sleeps until then, but at most for
these seconds, and returns the flag; ``stopped.reason`` says why.
In async functions, await ``stopped.wait(…)``.
"""
SyncDaemonStopperChecker = SyncFlagWaiter[DaemonStoppingReason]
"""The type of the argument ``stopped`` in functions that are not async.

It is true when the daemon must return. ``stopped.wait(seconds)`` sleeps until then, but at most for
these seconds, and returns the flag; ``stopped.reason`` says why.

::

    @kopf.daemon("kopfexamples")
    def monitor(stopped: kopf.SyncDaemonStopperChecker, **_):
        while not stopped.wait(10):
            print("alive")
"""
AsyncDaemonStopperChecker = AsyncFlagWaiter[DaemonStoppingReason]
"""The type of the argument ``stopped`` in async functions.

It is true when the daemon must return. ``stopped.wait(seconds)`` sleeps until then, but at most for
these seconds, and returns the flag; ``stopped.reason`` says why.

::

    @kopf.daemon("kopfexamples")
    async def monitor(stopped: kopf.AsyncDaemonStopperChecker, **_):
        while not await stopped.wait(10):
            print("alive")
"""
