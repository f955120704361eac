"""Creates a ConfigMap per shop, with Kopf. Bug: its name is generated, so that a repetition creates another one."""

import os
import pathlib
import sys

import kopf

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python"))

from kube import MAPS, Kube, Rejected, controlled, data  # noqa: E402

BUG = "BUG" in os.environ


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False


@kopf.on.create("shops", backoff=1)
def create_fn(body, name, **_):
    child = controlled(dict(body), f"{name}-map", data(body))
    if BUG:
        del child["metadata"]["name"]
        child["metadata"]["generateName"] = f"{name}-"
    try:
        Kube().create(MAPS, child)
    except Rejected as error:
        if "already exists" not in str(error):
            raise


@kopf.on.update("shops", backoff=1)
def update_fn(body, name, **_):
    if not BUG:
        Kube().patch(f"{MAPS}/{name}-map", {"data": data(body)})
