"""Creates a ConfigMap per shop. Bug: the owner is remembered by its name, which a later shop may have too."""

import sys

from kube import Controller, Object, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, str] = {}

    def reconcile(self, kind: str, shop: Object) -> None:
        meta = shop["metadata"]
        uid = self.owners.setdefault(meta["name"], meta["uid"]) if BUG else meta["uid"]
        owner = {**shop, "metadata": {**meta, "uid": uid}}
        self.apply(owner, f"{meta['name']}-map", data(shop))

    def deleted(self, shop: Object) -> None:
        self.owners.pop(shop["metadata"]["name"], None)


Shops().run()
