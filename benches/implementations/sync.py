# The benchmarked operator, with a synchronous function.
import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False


@kopf.on.create("kopfexamples")
def create_fn(**_):
    return {"message": "hello world"}
