"""Timers: functions that are called regularly for every object."""

import kopf


@kopf.timer("kopfexamples", idle=1, interval=0.5, sharp=True)
def every_half_second(spec, logger, **_):
    """Is called when the object has not changed for a second, every half a second."""
    logger.info(f"Ping: field={spec['field']}")


@kopf.timer("kopfexamples", idle=1)
async def after_each_change(spec, **_):
    """Has no interval, so it is called once after each change."""
    return spec["field"]


@kopf.timer("kopfexamples", interval=0.5, backoff=0.1)
async def counter(status, patch, retry, **_):
    """Counts on the object itself. Retries of errors do not wait for the interval."""
    if retry < 1:
        raise kopf.TemporaryError("Succeeds at the second attempt.", delay=0.1)
    patch.status["count"] = status.get("count", 0) + 1
