"""Notes the size of a shop in a label. Bug: it replaces all labels by those that it knows."""

import sys

from kube import SHOPS, Controller, Object

BUG = "--bug" in sys.argv


class Shops(Controller):
    def __init__(self) -> None:
        super().__init__()
        self.noted: dict[str, str] = {}

    def reconcile(self, kind: str, shop: Object) -> None:
        name, size = shop["metadata"]["name"], str(shop["spec"]["size"])
        labels = shop["metadata"].get("labels", {})
        if size in (labels.get("size"), self.noted.get(name)):
            return
        if BUG:
            patch = [{"op": "add", "path": "/metadata/labels", "value": {**labels, "size": size}}]
            self.kube.call("PATCH", f"{SHOPS}/{name}", patch, "application/json-patch+json")
        else:
            self.kube.patch(f"{SHOPS}/{name}", {"metadata": {"labels": {"size": size}}})
        self.noted[name] = size

    def deleted(self, shop: Object) -> None:
        self.noted.pop(shop["metadata"]["name"], None)


Shops().run()
