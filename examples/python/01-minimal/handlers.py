"""A minimal operator: one handler for new objects, whose result is stored in their status."""

import kopf


@kopf.on.create("kopfexamples")
def create_fn(spec, logger, **_):
    logger.info(f"Creating with {dict(spec)}")
    return {"message": "hello world"}
