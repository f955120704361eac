"""Daemons: functions that run for as long as their object exists."""

import kopf


@kopf.daemon(
    "kopfexamples", initial_delay=0.1, backoff=1, cancellation_backoff=1, cancellation_timeout=3
)
async def background_async(spec, stopped, logger, retry, **_):
    """An asynchronous daemon is a task. It sleeps with `stopped`, so it exits immediately."""
    logger.info("Starting to ping in the background.")
    if retry == 0:
        raise kopf.TemporaryError("Not now, but soon.", delay=0.1)
    while not await stopped.wait(0.2):
        # The spec is live: it is the current one, not that of the call.
        logger.info(f"Pinging in a task: field={spec.get('field')}")
    logger.info(f"Stopped: {stopped.reason}")


@kopf.daemon("kopfexamples")
def background_sync(stopped, patch, logger, **_):
    """A synchronous daemon has its own thread, and must check `stopped`."""
    while not stopped.wait(0.2):
        logger.info("Pinging in a thread.")
    # The patch is applied when the function returns.
    patch.status["goodbye"] = True
