"""Creates a ConfigMap per shop. Bug: a field that is removed from the shop stays in the ConfigMap."""

import sys

from kube import MAPS, Controller, Object, controlled, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        name = f"{shop['metadata']['name']}-map"
        if BUG and self.kube.get(f"{MAPS}/{name}") is not None:
            self.kube.patch(f"{MAPS}/{name}", {"data": data(shop)})
        elif BUG:
            self.kube.create(MAPS, controlled(shop, name, data(shop)))
        else:
            self.apply(shop, name, data(shop))


Shops().run()
