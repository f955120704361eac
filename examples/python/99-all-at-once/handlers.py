"""All types of handlers on one object."""

import kopf


@kopf.on.startup()
async def startup_fn(settings: kopf.OperatorSettings, logger, **_):
    settings.execution.default_backoff = 1
    logger.info("STARTED")


@kopf.on.cleanup()
async def cleanup_fn(logger, **_):
    logger.info("CLEANED UP")


@kopf.on.probe()  # type: ignore[arg-type]  # indices are unknown to type checkers
async def objects(by_field: kopf.Index, **_):
    return len(by_field)


@kopf.index("kopfexamples")
def by_field(spec, name, **_):
    return {spec.get("field"): name}


@kopf.on.event("kopfexamples")
def event_fn(memo, **_):
    memo.events = memo.get("events", 0) + 1


@kopf.on.resume("kopfexamples")
def resume_fn(logger, **_):
    logger.info("RESUMED")


@kopf.on.create("kopfexamples")  # type: ignore[arg-type]
async def create_fn(spec, by_field: kopf.Index, logger, **_):
    logger.info("CREATED")
    for item in spec.get("items", []):

        @kopf.subhandler(id=item)
        def handle_item(item=item, logger=logger, **_):
            logger.info(f"HANDLED {item}")

    return {"with-this-field": len(by_field.get(spec.get("field"), []))}


@kopf.on.update("kopfexamples")
def update_fn(diff, logger, **_):
    logger.info(f"UPDATED: {diff}")


@kopf.on.field("kopfexamples", field="spec.field")
def field_fn(old, new, logger, **_):
    logger.info(f"FIELD: {old} -> {new}")


@kopf.on.delete("kopfexamples")
async def delete_fn(logger, **_):
    logger.info("DELETED")


@kopf.daemon("kopfexamples", cancellation_timeout=3)
async def monitor(spec, stopped, logger, **_):
    logger.info("MONITORED")
    last = None
    while not await stopped.wait(0.1):
        if spec.get("field") != last:
            last = spec.get("field")
            logger.info(f"SEEN: {last}")
    logger.info("NOT MONITORED")


@kopf.timer("kopfexamples", interval=1)
def tick(memo, patch, **_):
    if memo.get("events"):
        patch.status["noticed"] = True
