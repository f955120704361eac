"""Wake-ups of the event loop per call of a handler, under load.

Usage: PYTHONPATH=python python python/benches/wakeups.py [OBJECTS]

An operator with one create handler starts on a sandbox with this number of objects (5000 by default), in
the same process. All objects are to be handled at once, up to `networking.concurrency` of them.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
import sys
import time
from typing import Any

import kopf
from kopf._front.bridge import loops, running
from kopf.testing import sandbox

ROOT = pathlib.Path(__file__).parents[2]

#: The limit of `docs/figures.md`.
LIMIT = 0.1


async def measure(count: int) -> tuple[int, float]:
    """Returns the number of wake-ups until all objects are handled, and the seconds."""
    calls = 0
    done = asyncio.Event()

    @kopf.on.create("kopfexamples")
    async def create(**_: Any) -> dict[str, str]:
        nonlocal calls
        calls += 1
        if calls == count:
            done.set()
        return {"message": "hello world"}

    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    begun = time.perf_counter()
    operator = asyncio.create_task(
        kopf.operator(clusterwide=True, standalone=True, settings=settings, stop_flag=done))
    await done.wait()
    seconds = time.perf_counter() - begun
    [engine] = [operator.engine for operator in running._running]
    wakeups = engine.wakeups
    await operator
    return wakeups, seconds


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    # The operator is stopped right after the last call, and warns about unfinished objects.
    logging.disable(logging.WARNING)
    with sandbox(ROOT / "examples" / "crd.yaml") as cluster:
        for number in range(count):
            cluster.create({
                "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
                "metadata": {"name": f"object-{number}"}, "spec": {"field": "value"},
            })
        with loops.proper_loop() as loop:
            wakeups, seconds = (loop or asyncio.new_event_loop()).run_until_complete(measure(count))
    print(f"{count} calls in {seconds:.2f} s, {wakeups} wake-ups: {wakeups / count:.3f} per call")
    return int(wakeups / count >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
