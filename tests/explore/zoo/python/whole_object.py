"""Adds an annotation to a shop. Bug: the patch has the whole object as it was read."""

import sys

from kube import SHOPS, Controller, Object

BUG = "--bug" in sys.argv


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        name, size = shop["metadata"]["name"], str(shop["spec"]["size"])
        if shop["metadata"].get("annotations", {}).get("size") == size:
            return
        patch: Object = {"metadata": {"annotations": {"size": size}}}
        if BUG:
            patch["spec"] = shop["spec"]
        self.kube.patch(f"{SHOPS}/{name}", patch)


Shops().run()
