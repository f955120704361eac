"""The event loop of the command line."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

__all__ = ["proper_loop"]


@contextlib.contextmanager
def proper_loop(
    suggested_loop: asyncio.AbstractEventLoop | None = None,
) -> Iterator[asyncio.AbstractEventLoop | None]:
    """Yields the suggested loop, or a new loop of uvloop if it is installed, or `None`.

    With `None`, the operator creates its own regular loop. A new loop is closed at the end.
    """
    if suggested_loop is not None:
        yield suggested_loop
        return
    try:
        import uvloop
    except ImportError:
        yield None
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner.get_loop()
