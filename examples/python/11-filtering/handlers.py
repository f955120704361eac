"""Filters of handlers. Objects without a matching handler are not modified."""

import kopf


def is_short(spec, **_):
    return spec.get("duration") == "1m"


def starts_with_v(value, **_):
    return str(value).startswith("v")


@kopf.on.create("kopfexamples", labels={"somelabel": "somevalue"})
def label_value(logger, **_):
    logger.info("The label has the value.")


@kopf.on.create("kopfexamples", labels={"somelabel": kopf.PRESENT})
def label_present(logger, **_):
    logger.info("The label is present.")


@kopf.on.create("kopfexamples", labels={"otherlabel": kopf.ABSENT})
def label_absent(logger, **_):
    logger.info("The other label is absent.")


@kopf.on.create("kopfexamples", annotations={"someannotation": "othervalue"})
def annotation_value(logger, **_):
    logger.info("The annotation has another value.")


@kopf.on.create("kopfexamples", when=kopf.all_([is_short, kopf.not_(lambda name, **_: not name)]))
def function(logger, **_):
    logger.info("The functions have returned true.")


@kopf.on.create("kopfexamples", field="spec.field", value=starts_with_v)
def field_value(logger, **_):
    logger.info("The field's value is accepted.")


@kopf.on.update("kopfexamples", field="spec.field", old="value", new="changed")
def field_change(logger, **_):
    logger.info("The field has changed.")
