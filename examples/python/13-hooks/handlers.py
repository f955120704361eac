"""Activities of the operator itself: startup, login, probes, cleanup.

With `--liveness http://0.0.0.0:8080/healthz`, the results of probes are at that URL.
"""

import datetime

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.level = 30  # warnings
    settings.execution.default_backoff = 10


@kopf.on.startup(retries=5)
async def connect(memo, retry, logger, **_):
    """No handler is called before it succeeds."""
    if retry == 0:
        raise kopf.TemporaryError("The database is not ready.", delay=0.1)
    memo.database = "db://somewhere"
    memo.created = 0
    logger.info(f"Connected to {memo.database}.")


@kopf.on.login(retries=3)
def login(logger, **kwargs):
    """Replaces the default logins. Is called again when the credentials expire."""
    logger.info("Logging in.")
    return kopf.login_with_service_account(logger=logger, **kwargs) or kopf.login_with_kubeconfig(
        logger=logger, **kwargs
    )


@kopf.on.probe(id="now")
def get_time(**_):
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


@kopf.on.probe(id="created")
def get_count(memo, **_):
    return memo.created


@kopf.on.cleanup()
async def disconnect(memo, logger, **_):
    logger.info(f"Disconnected from {memo.database}.")


@kopf.on.create("kopfexamples")
def create_fn(memo, name, logger, **_):
    logger.info(f"Storing {name} in {memo.database}.")
