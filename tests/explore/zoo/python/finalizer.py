"""Cleans up a ConfigMap without an owner by a finalizer. Bug: it waits for a ConfigMap that is already gone."""

import sys

from kube import MAPS, SHOPS, Controller, Object, Rejected, controlled, data

BUG = "--bug" in sys.argv
FINALIZER = "zoo.example.com/cleanup"


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        name = shop["metadata"]["name"]
        finalizers = shop["metadata"].get("finalizers", [])
        if "deletionTimestamp" in shop["metadata"]:
            if FINALIZER not in finalizers:
                return
            if BUG and self.kube.get(f"{MAPS}/{name}-map") is None:
                return
            self.kube.delete(f"{MAPS}/{name}-map")
            self.finalizers(name, [])
            return
        if FINALIZER not in finalizers:
            self.finalizers(name, [FINALIZER])
        found = self.kube.get(f"{MAPS}/{name}-map")
        if found is None:
            child = controlled(shop, f"{name}-map", data(shop))
            child["metadata"].pop("ownerReferences")
            self.kube.create(MAPS, child)
        elif found["data"] != data(shop):
            found["data"] = data(shop)
            self.kube.replace(f"{MAPS}/{name}-map", found)

    def finalizers(self, name: str, wanted: list[str]) -> None:
        try:
            self.kube.patch(f"{SHOPS}/{name}", {"metadata": {"finalizers": wanted}})
        except Rejected as error:
            if error.code != 404:
                raise


Shops().run()
