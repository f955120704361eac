"""Creates a ConfigMap per shop. Bug: after an error, the request is repeated without a pause and without end."""

import sys

from kube import MAPS, Controller, Object, controlled, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        name = f"{shop['metadata']['name']}-map"
        if BUG and kind == "RETRY":
            self.kube.create(MAPS, controlled(shop, name, data(shop)))
        self.apply(shop, name, data(shop))

    def failed(self, kind: str, body: Object) -> None:
        self.put("/apis/zoo.example.com/v1/namespaces/default/shops", "RETRY", body, 0 if BUG else 0.2)


Shops().run()
