"""Timers: functions that are called regularly for every object."""

import kopf


@kopf.timer("kopfexamples", idle=1, interval=0.5, sharp=True)
def every_half_second(spec, logger, **_):
    """Is called every half a second while the object has not changed for a second."""
    logger.info(f"Ping: field={spec['field']}")


@kopf.timer("kopfexamples", idle=1)
async def after_each_change(spec, **_):
    """Is called once after each change, because it has no interval."""
    return spec["field"]


@kopf.timer("kopfexamples", interval=0.5, backoff=0.1)
async def counter(status, patch, retry, **_):
    """Counts in the status of the object. Retries do not wait for the interval."""
    if retry < 1:
        raise kopf.TemporaryError("Succeeds at the second attempt.", delay=0.1)
    patch.status["count"] = status.get("count", 0) + 1
