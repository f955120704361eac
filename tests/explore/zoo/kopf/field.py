"""Copies the specification of a shop, with Kopf. Bug: a removed field is not removed from the copy."""

import os
import pathlib
import sys

import kopf

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python"))

from kube import MAPS, Kube, controlled, data  # noqa: E402

BUG = "BUG" in os.environ


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False


@kopf.on.create("shops", backoff=1)
@kopf.on.update("shops", backoff=1)
def copy_fn(body, name, **_):
    kube, path = Kube(), f"{MAPS}/{name}-map"
    wanted = controlled(dict(body), f"{name}-map", data(body))
    found = kube.get(path)
    if found is None:
        kube.create(MAPS, wanted)
    elif BUG:
        kube.patch(path, {"data": wanted["data"]})
    else:
        gone = dict.fromkeys(set(found["data"]) - set(wanted["data"]))
        kube.patch(path, {"data": {**gone, **wanted["data"]}})
