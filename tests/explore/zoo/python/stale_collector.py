"""Creates a ConfigMap per shop, and collects those without a shop. Bug: it trusts its cache when it starts."""

import sys

from kube import LABELS, MAPS, SHOPS, Controller, Object, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        self.apply(shop, f"{shop['metadata']['name']}-map", data(shop))

    def listed(self, shops: list[Object]) -> None:
        selector = "&".join(f"labelSelector={key}%3D{value}" for key, value in LABELS.items())
        names = {shop["metadata"]["name"] for shop in shops}
        for found in self.kube.call("GET", f"{MAPS}?{selector}")["items"]:
            name = found["metadata"]["name"].removesuffix("-map")
            if name in names:
                continue
            if BUG or self.kube.get(f"{SHOPS}/{name}") is None:
                self.kube.delete(f"{MAPS}/{name}-map")


Shops().run()
