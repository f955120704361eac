"""Admission webhooks: requests are denied, changed or warned about before objects are stored."""

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    # Announces the Service of its pod in a cluster, otherwise the address at which a local cluster reaches this
    # process; generates a certificate.
    settings.admission.server = kopf.WebhookAutoServer()
    # The name of the webhook configurations, which the operator keeps up to date.
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
    # Usernames can contain characters that are invalid in labels.
    patch.meta.labels["creator"] = userinfo["username"].replace(":", "-")
    if not spec.get("duration"):
        patch.spec["duration"] = "1m"


@kopf.on.validate("kopfexamples", operations=["DELETE"], annotations={"keep": kopf.PRESENT})
def keep(name, **_):
    raise kopf.AdmissionError(f"{name} must be kept.", code=403)
