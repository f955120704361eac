"""Indices: in-memory lookup tables over other objects. Memos: in-memory data of an object."""

import kopf


@kopf.index("pods")
def is_running(namespace, name, status, **_):
    return {(namespace, name): status.get("phase") == "Running"}


@kopf.index("pods", labels={"somelabel": kopf.PRESENT})
def by_label(namespace, name, labels, **_):
    return {(label, value): (namespace, name) for label, value in labels.items()}


@kopf.on.resume("kopfexamples")
@kopf.on.create("kopfexamples")
@kopf.on.update("kopfexamples")  # type: ignore[arg-type]  # indices are unknown to type checkers
def look(labels, memo, logger, by_label: kopf.Index, is_running: kopf.Index, **_):
    """Both indices are complete before the first call."""
    memo.looks = memo.get("looks", 0) + 1
    alike = []
    for label in labels.items():
        for namespace, name in by_label.get(label, []):
            alike.append(name)
            if True in is_running.get((namespace, name), []):
                logger.info(f"{name} is running.")
    logger.info(f"{len(alike)} of {len(is_running)} pods have the same labels.")
    return {"alike": sorted(alike), "looks": memo.looks}
