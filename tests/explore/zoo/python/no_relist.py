"""Creates a ConfigMap per shop. Bug: after an expired watch, it continues from now on without listing."""

import sys

from kube import Controller, Object, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        self.apply(shop, f"{shop['metadata']['name']}-map", data(shop))

    def expired(self, path: str) -> str:
        if not BUG:
            return super().expired(path)
        listed = self.kube.call("GET", path + "?limit=1")
        version: str = listed["metadata"]["resourceVersion"]
        return version


Shops().run()
