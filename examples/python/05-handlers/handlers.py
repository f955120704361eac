"""A handler for each change of an object, and one for a field."""

import kopf


@kopf.on.resume("kopfexamples")
def resume_fn(logger, **_):
    """Called for objects that existed before the operator started."""
    logger.info("RESUMED")


@kopf.on.create("kopfexamples")
def create_fn(logger, **_):
    logger.info("CREATED")


@kopf.on.create("kopfexamples")
async def create_again(logger, **_):
    """Another handler of the same cause; each has its own retries."""
    logger.info("CREATED AGAIN")


@kopf.on.update("kopfexamples")
def update_fn(diff, logger, **_):
    for operation, field, old, new in diff:
        logger.info(f"UPDATED: {operation} {'.'.join(field)}: {old!r} -> {new!r}")


@kopf.on.field("kopfexamples", field="spec.field")
def field_fn(old, new, logger, **_):
    logger.info(f"FIELD: {old!r} -> {new!r}")


@kopf.on.delete("kopfexamples")
def delete_fn(logger, **_):
    """The object is not removed until this handler succeeds."""
    logger.info("DELETED")
