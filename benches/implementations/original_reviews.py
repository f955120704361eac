# The operator of the admission benchmark, for the original.
import os

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        port=int(os.environ["BENCH_PORT"]),
        certfile=os.environ["BENCH_CERTIFICATE"],
        pkeyfile=os.environ["BENCH_KEY"],
    )


@kopf.on.validate("kopfexamples")
async def check(**_):
    pass
