"""The smallest operator: it handles new objects, and the result goes to their status."""

import kopf


@kopf.on.create("kopfexamples")
def create_fn(spec, logger, **_):
    logger.info(f"Creating with {dict(spec)}")
    return {"message": "hello world"}
