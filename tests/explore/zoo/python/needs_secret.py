"""Creates a ConfigMap when the secret of a shop is known. Bug: it looks for the secret only once."""

import sys

from kube import SECRETS, Controller, Object, data

BUG = "--bug" in sys.argv


class Shops(Controller):
    others = (SECRETS,)

    def __init__(self) -> None:
        super().__init__()
        self.secrets: set[str] = set()

    def reconcile(self, kind: str, shop: Object) -> None:
        name = shop["metadata"]["name"]
        if name in self.secrets:
            self.apply(shop, f"{name}-map", data(shop))

    def observe(self, path: str, kind: str, body: Object) -> None:
        items = body["items"] if kind == "LISTED" else [body]
        for secret in items:
            name = secret["metadata"]["name"]
            self.secrets.discard(name) if kind == "DELETED" else self.secrets.add(name)
            if name in self.shops and not BUG:
                self.retry(self.shops[name])


Shops().run()
