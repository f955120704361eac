"""Several operators for the same objects: the one with the highest priority works."""

import kopf


@kopf.on.create("kopfexamples")
@kopf.on.update("kopfexamples")
def handle(reason, logger, **_):
    logger.info(f"Handled the {reason}.")
