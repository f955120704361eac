"""Creates a ConfigMap per shop. Bug: it ignores SIGTERM."""

import signal
import sys

from kube import Controller, Object, data

if "--bug" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Shops(Controller):
    def reconcile(self, kind: str, shop: Object) -> None:
        self.apply(shop, f"{shop['metadata']['name']}-map", data(shop))


Shops().run()
