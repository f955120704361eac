"""All watch events of objects: no causes, no retries, and nothing is stored."""

import kopf


@kopf.on.event("kopfexamples")
def event_fn(type, name, logger, **_):
    # Objects that exist when the operator starts are listed, and have no type of the event.
    logger.info(f"{type or 'LISTED'}: {name}")
