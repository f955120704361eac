"""Kubernetes events of an object, as shown by `kubectl describe`."""

import kopf


@kopf.on.create("kopfexamples")
def create_fn(body, logger, **_):
    # Log records are also posted as events, unless the settings disable it.
    logger.info("Everything is fine so far.")

    kopf.event(body, type="SomeType", reason="SomeReason", message="Some message")
    kopf.info(body, reason="SomeReason", message="Some information")
    kopf.warn(body, reason="SomeReason", message="Some warning")
    try:
        int("one")
    except ValueError:
        kopf.exception(body, reason="SomeReason", message="Some exception:")
