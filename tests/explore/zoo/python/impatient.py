"""Creates a ConfigMap per shop. Bug: its requests time out after a second and are given up."""

import sys

from kube import Controller, Kube, Object, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def __init__(self) -> None:
        super().__init__()
        if BUG:
            self.kube = Kube(timeout=1)

    def reconcile(self, kind: str, shop: Object) -> None:
        self.apply(shop, f"{shop['metadata']['name']}-map", data(shop))

    def failed(self, kind: str, body: Object) -> None:
        if not BUG:
            super().failed(kind, body)


Shops().run()
