"""Errors in handlers: temporary, permanent, and all others."""

import kopf


class UnreachableError(Exception):
    pass


@kopf.on.create("kopfexamples")
def temporary(retry, **_):
    """Fails three times, with a second in between, then succeeds."""
    if retry < 3:
        raise kopf.TemporaryError("The data is not available yet.", delay=1)
    return {"attempts": retry + 1}


@kopf.on.create("kopfexamples")
def permanent(**_):
    """Is never retried."""
    raise kopf.PermanentError("The data is invalid.")


@kopf.on.create("kopfexamples", retries=3, backoff=1)
def limited(**_):
    """Is retried after the backoff, at most `retries` times in total."""
    raise UnreachableError("no connection to the machine")


@kopf.on.create("kopfexamples", timeout=2, backoff=1)
def hopeless(**_):
    """Is retried for two seconds."""
    raise UnreachableError("no connection to the machine")


@kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.IGNORED)
def ignored(**_):
    """Counts as succeeded."""
    raise UnreachableError("no connection to the machine")
