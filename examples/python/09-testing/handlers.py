"""An operator with a test beside it."""

import kopf


@kopf.on.create("kopfexamples")
def greet(spec, logger, patch, **_):
    name = spec.get("field")
    if not name:
        raise kopf.PermanentError("spec.field is not set")
    logger.info(f"Hello, {name}!")
    patch.status["greeted"] = name


@kopf.timer("kopfexamples", interval=3600, initial_delay=3600)
def remind(status, patch, **_):
    patch.status["reminders"] = status.get("reminders", 0) + 1
