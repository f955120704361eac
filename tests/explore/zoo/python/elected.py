"""Logs each change of a shop in a ConfigMap of its own, as the leader of several processes.

Bug: who was the leader once, believes to be it for ever. With --long, the lease is longer than any step, and the names
of the ConfigMaps are fixed.
"""

import os
import sys
import threading
import time
import uuid

from kube import LABELS, MAPS, SHOPS, Controller, Object, Rejected, controlled, data

BUG = "--bug" in sys.argv
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NAME = "shops"
LONG = "--long" in sys.argv
DURATION = 300.0 if LONG else 2.0


class Election:
    def __init__(self, kube: object) -> None:
        self.kube = kube
        self.identity = f"{os.getpid()}-{uuid.uuid4()}"
        self.renewed = float("-inf")
        self.seen: tuple[object, float] = (None, time.monotonic())

    def leads(self) -> bool:
        if BUG:
            return self.renewed > float("-inf")
        return time.monotonic() - self.renewed < DURATION * 0.7

    def attempt(self) -> None:
        began = time.monotonic()
        lease = self.kube.get(f"{LEASES}/{NAME}")
        spec = {"holderIdentity": self.identity, "leaseDurationSeconds": int(DURATION),
                "renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime()) + f"{time.time_ns() // 1000 % 10**6:06}Z"}
        if lease is None:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}, "spec": spec}
            self.kube.create(LEASES, body)
        else:
            holder = lease["spec"].get("holderIdentity")
            version = lease["metadata"]["resourceVersion"]
            if self.seen[0] != version:
                self.seen = (version, time.monotonic())
            is_over = time.monotonic() - self.seen[1] > DURATION
            if holder not in (None, "", self.identity) and not is_over:
                return
            lease["spec"] = spec
            self.kube.replace(f"{LEASES}/{NAME}", lease)
        self.renewed = began

    def run(self) -> None:
        while True:
            try:
                self.attempt()
            except (OSError, ValueError, Rejected) as error:
                print(f"lease: {error!r}", flush=True)
            time.sleep(0.3)


class Shops(Controller):
    def __init__(self) -> None:
        super().__init__()
        self.election = Election(self.kube)
        threading.Thread(target=self.election.run, daemon=True).start()

    def reconcile(self, kind: str, shop: Object) -> None:
        name, size = shop["metadata"]["name"], shop["spec"]["size"]
        if not self.election.leads():
            self.failed(kind, shop)
            return
        if shop.get("status", {}).get("size") == size:
            return
        if LONG:
            self.apply(shop, f"{name}-map", data(shop))
            self.kube.patch(f"{SHOPS}/{name}", {"status": {"size": size}})
            return
        entry = controlled(shop, "", data(shop))
        references = entry["metadata"]["ownerReferences"]
        entry["metadata"] = {"generateName": f"{name}-", "labels": LABELS, "ownerReferences": references}
        self.kube.create(MAPS, entry)
        self.shops[name] = self.kube.patch(f"{SHOPS}/{name}", {"status": {"size": size}})


Shops().run()
