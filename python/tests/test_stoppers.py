"""The flag ``stopped`` in its sync and async forms."""

from __future__ import annotations

import asyncio

import kopf
from kopf._front.objects.stoppers import AsyncFlagWaiter, SyncFlagWaiter


class FakeFlag:
    """The native flag."""

    def __init__(self) -> None:
        self.bits = 0
        self.waits: list[float | None] = []

    def is_set(self) -> bool:
        return bool(self.bits)

    def reason(self) -> int:
        return self.bits

    def wait_blocking(self, timeout: float | None) -> bool:
        self.waits.append(timeout)
        self.bits |= 4
        return True

    def wait_async(self, timeout: float | None) -> asyncio.Future[bool]:
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        future.set_result(self.wait_blocking(timeout))
        return future


def test_flag_is_falsy_until_set() -> None:
    flag = FakeFlag()
    stopped = SyncFlagWaiter[kopf.DaemonStoppingReason](flag)
    assert not stopped
    assert not stopped.is_set()
    assert stopped.reason is None
    flag.bits = 4 | 32
    assert stopped
    assert stopped.is_set()
    assert stopped.reason is not None
    assert kopf.DaemonStoppingReason.RESOURCE_DELETED in stopped.reason
    assert kopf.DaemonStoppingReason.OPERATOR_EXITING not in stopped.reason


def test_sync_wait_blocks_and_returns_the_flag() -> None:
    flag = FakeFlag()
    stopped = SyncFlagWaiter[kopf.DaemonStoppingReason](flag)
    assert stopped.wait(5) is stopped
    assert stopped.wait(timeout=None)
    assert flag.waits == [5, None]


def test_async_wait_is_awaited_and_returns_the_flag() -> None:
    flag = FakeFlag()
    stopped = AsyncFlagWaiter[kopf.DaemonStoppingReason](flag)

    async def main() -> None:
        promise = stopped.wait(5)
        assert not promise  # not awaited
        assert await promise is stopped
        assert await stopped.wait()

    asyncio.run(main())
    assert flag.waits == [5]  # a set flag is not waited for


def test_annotations_of_users_match() -> None:
    assert issubclass(SyncFlagWaiter, kopf.DaemonStopped.__origin__)  # type: ignore[attr-defined]
    assert issubclass(AsyncFlagWaiter, kopf.DaemonStopped.__origin__)  # type: ignore[attr-defined]
