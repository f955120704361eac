"""All watch events of objects: no causes, no retries, and nothing is stored."""

import kopf


@kopf.on.event("kopfexamples")
def event_fn(type, name, logger, **_):
    # Objects that exist when the operator starts are listed; their events have no type.
    logger.info(f"{type or 'LISTED'}: {name}")
