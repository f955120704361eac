"""Events of objects, which `kubectl describe` shows."""

import kopf


@kopf.on.create("kopfexamples")
def create_fn(body, logger, **_):
    # Log messages become events as well, unless the settings disable it.
    logger.info("Everything is fine so far.")

    kopf.event(body, type="SomeType", reason="SomeReason", message="Some message")
    kopf.info(body, reason="SomeReason", message="Some information")
    kopf.warn(body, reason="SomeReason", message="Some warning")
    try:
        int("one")
    except ValueError:
        kopf.exception(body, reason="SomeReason", message="Some exception:")
