"""A handler that registers one sub-handler for each item, each with its own retries and result."""

import functools

import kopf


@kopf.on.create("kopfexamples")
def create_items(spec, **_):
    for item in spec.get("items", []):
        kopf.register(fn=functools.partial(create_item, item=item), id=item)


def create_item(item, retry, logger, **_):
    # The second item needs a second attempt, which does not repeat the first item.
    if item == "item2" and retry == 0:
        raise kopf.TemporaryError("Not yet.", delay=1)
    logger.info(f"Handling {item}.")
    return {"handled": item}
