"""Creates a ConfigMap per shop. Bug: a new shop gets the default color; only changes are applied."""

import sys

from kube import MAPS, Controller, Object, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        name = f"{shop['metadata']['name']}-map"
        content = data(shop)
        if BUG and kind == "ADDED" and self.kube.get(f"{MAPS}/{name}") is None:
            content["color"] = "red"
        self.apply(shop, name, content)


Shops().run()
