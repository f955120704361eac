"""Several operators for the same objects: only the one with the highest priority is active."""

import kopf


@kopf.on.create("kopfexamples")
@kopf.on.update("kopfexamples")
def handle(reason, logger, **_):
    logger.info(f"Handled the {reason}.")
