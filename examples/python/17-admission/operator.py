"""Admission: requests that are denied, changed or warned of before an object is stored."""

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    # Detects how a cluster on this machine reaches it, and generates a certificate for that.
    settings.admission.server = kopf.WebhookAutoServer()
    # The webhook configurations of this name are kept up to date.
    settings.admission.managed = "auto.kopf.dev"


@kopf.on.validate("kopfexamples", operations=["CREATE", "UPDATE"])
def check(spec, dryrun, warnings, logger, **_):
    if spec.get("field") == "wrong":
        raise kopf.AdmissionError("This field is wrong.", code=499)
    if spec.get("field") == "value":
        warnings.append("the value is the one of the examples")
    logger.info(f"Admitted; dry run: {dryrun}.")


@kopf.on.mutate("kopfexamples", operations=["CREATE"])
def fill_in(userinfo, spec, patch, **_):
    # Not every username can be a label.
    patch.meta.labels["creator"] = userinfo["username"].replace(":", "-")
    if not spec.get("duration"):
        patch.spec["duration"] = "1m"


@kopf.on.validate("kopfexamples", operations=["DELETE"], annotations={"keep": kopf.PRESENT})
def keep(name, **_):
    raise kopf.AdmissionError(f"{name} is to be kept.", code=403)
