"""Creates a ConfigMap per shop. Bug: a failed request is logged and forgotten."""

import sys

from kube import Controller, Object, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        self.apply(shop, f"{shop['metadata']['name']}-map", data(shop))

    def failed(self, kind: str, body: Object) -> None:
        if not BUG:
            super().failed(kind, body)


Shops().run()
