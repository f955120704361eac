"""Creates one ConfigMap per shop. Bug: with a generated name, and without looking for it after an error."""

import sys

from kube import LABELS, MAPS, SHOPS, Controller, Object, controlled, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        name = shop["metadata"]["name"]
        if not BUG:
            self.apply(shop, f"{name}-map", data(shop))
            return
        child = (shop.get("status") or {}).get("child")
        if child:
            self.apply(shop, child, data(shop))
            return
        created = controlled(shop, "", data(shop))
        created["metadata"] = {"generateName": f"{name}-", "labels": LABELS,
                               "ownerReferences": created["metadata"]["ownerReferences"]}
        child = self.kube.create(MAPS, created)["metadata"]["name"]
        self.kube.patch(f"{SHOPS}/{name}", {"status": {"child": child}})


Shops().run()
