"""Creates two ConfigMaps per shop. Bug: the shop is marked as done between the two."""

import sys

from kube import SHOPS, Controller, Object, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        name = shop["metadata"]["name"]
        done = {"status": {"size": shop["spec"]["size"]}}
        if shop.get("status") == done["status"] and BUG:
            return
        self.apply(shop, f"{name}-a", data(shop))
        if BUG:
            self.kube.patch(f"{SHOPS}/{name}", done)
        self.apply(shop, f"{name}-b", data(shop))
        if shop.get("status") != done["status"] and not BUG:
            self.kube.patch(f"{SHOPS}/{name}", done)


Shops().run()
