"""Creates one ConfigMap per shop. Bug: it remembers the ConfigMap in memory, which a second copy does not share."""

import sys

from kube import LABELS, MAPS, Controller, Object, controlled, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    def __init__(self) -> None:
        super().__init__()
        self.children: dict[str, str] = {}

    def reconcile(self, kind: str, shop: Object) -> None:
        name = shop["metadata"]["name"]
        if not BUG:
            self.apply(shop, f"{name}-map", data(shop))
        elif name in self.children:
            self.apply(shop, self.children[name], data(shop))
        else:
            child = controlled(shop, "", data(shop))
            references = child["metadata"]["ownerReferences"]
            child["metadata"] = {"generateName": f"{name}-", "labels": LABELS, "ownerReferences": references}
            self.children[name] = self.kube.create(MAPS, child)["metadata"]["name"]

    def deleted(self, shop: Object) -> None:
        self.children.pop(shop["metadata"]["name"], None)


Shops().run()
