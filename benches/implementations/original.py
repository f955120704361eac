# The benchmarked operator, for the original.
import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False


@kopf.on.create("kopfexamples")
async def create_fn(**_):
    return {"message": "hello world"}
