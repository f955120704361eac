"""A client and a controller loop with nothing but the standard library."""

from __future__ import annotations

import base64
import http.client
import json
import os
import queue
import re
import ssl
import threading
import time
from typing import Any, Callable
from urllib.parse import urlsplit

Object = dict[str, Any]
SHOPS = "/apis/zoo.example.com/v1/namespaces/default/shops"
MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
LABELS = {"app": "shop"}


class Rejected(Exception):
    """A response with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code


class Kube:
    """A client of the cluster in KUBECONFIG."""

    def __init__(self, timeout: float = 30) -> None:
        with open(os.environ["KUBECONFIG"], encoding="utf-8") as file:
            text = file.read()

        def field(name: str) -> str:
            found = re.search(rf'^\s*{name}: "?([^"\s]+)', text, re.MULTILINE)
            assert found, name
            return found[1]

        authority = base64.b64decode(field("certificate-authority-data")).decode()
        self.context = ssl.create_default_context(cadata=authority)
        self.server = urlsplit(field("server"))
        self.headers = {"Authorization": f"Bearer {field('token')}"}
        self.timeout = timeout
        self.local = threading.local()

    def connect(self, timeout: float | None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self.server.hostname or "", self.server.port, context=self.context, timeout=timeout)

    def call(self, method: str, path: str, body: Any = None,
             kind: str = "application/json") -> Object:
        connection = getattr(self.local, "connection", None) or self.connect(self.timeout)
        self.local.connection = None
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, {**self.headers, "Content-Type": kind})
        response = connection.getresponse()
        result: Object = json.loads(response.read())
        if response.status >= 400:
            raise Rejected(response.status, result.get("message", ""))
        self.local.connection = connection
        return result

    def get(self, path: str) -> Object | None:
        try:
            return self.call("GET", path)
        except Rejected as error:
            if error.code == 404:
                return None
            raise

    def create(self, path: str, body: Object) -> Object:
        return self.call("POST", path, body)

    def replace(self, path: str, body: Object) -> Object:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Object) -> Object:
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str) -> None:
        try:
            self.call("DELETE", path)
        except Rejected as error:
            if error.code != 404:
                raise

    def watch(self, path: str, version: str, act: Callable[[str, Object], None]) -> bool:
        """Passes events until the stream ends. Returns False if the version is too old."""
        connection = self.connect(None)
        query = f"?watch=true&resourceVersion={version}"
        connection.request("GET", path + query, headers=self.headers)
        response = connection.getresponse()
        if response.status == 410:
            return False
        while line := response.readline():
            event = json.loads(line)
            if event["type"] == "ERROR":
                return bool(event["object"].get("code") != 410)
            act(event["type"], event["object"])
        return True


def controlled(owner: Object, name: str, data: dict[str, str]) -> Object:
    """Returns a ConfigMap that belongs to a shop."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"],
                 "uid": meta["uid"], "controller": True}
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": name, "labels": LABELS, "ownerReferences": [reference]}}


def data(shop: Object) -> dict[str, str]:
    """Returns the data of the ConfigMap of a shop."""
    return {key: str(value) for key, value in shop["spec"].items()}


class Controller:
    """Lists and watches shops, and calls `reconcile` for each change until it succeeds."""

    #: Other paths whose changes are passed to `observe`.
    others: tuple[str, ...] = ()
    #: Ask the server for its cached state at the start, as informers do.
    cached = True
    delay = 0.2

    def __init__(self) -> None:
        self.kube = Kube()
        self.inbox: queue.Queue[tuple[float, int, str, str, Object]] = queue.PriorityQueue()
        self.number = 0
        self.shops: dict[str, Object] = {}

    def put(self, path: str, kind: str, body: Object, delay: float = 0) -> None:
        self.number += 1
        self.inbox.put((time.monotonic() + delay, self.number, path, kind, body))

    def follow(self, path: str) -> None:
        version = ""
        while True:
            try:
                if not version:
                    version = self.relist(path)

                def act(kind: str, body: Object) -> None:
                    nonlocal version
                    version = body["metadata"]["resourceVersion"]
                    self.put(path, kind, body)

                if not self.kube.watch(path, version, act):
                    version = self.expired(path)
            except (OSError, http.client.HTTPException, ValueError, Rejected) as error:
                print(f"watch of {path}: {error!r}", flush=True)
                time.sleep(0.1)

    def relist(self, path: str) -> str:
        listed = self.kube.call("GET", path + ("?resourceVersion=0" if self.cached else ""))
        version: str = listed["metadata"]["resourceVersion"]
        group = path.split("/namespaces/")[0].removeprefix("/apis/").removeprefix("/api/")
        for item in listed["items"]:
            item.update(apiVersion=group, kind=listed["kind"].removesuffix("List"))
        self.put(path, "LISTED", {"items": listed["items"]})
        return version

    def expired(self, path: str) -> str:
        """Returns the version to continue from after a 410; none lists again."""
        return ""

    def run(self) -> None:
        for path in (SHOPS, *self.others):
            threading.Thread(target=self.follow, args=(path,), daemon=True).start()
        while True:
            due, number, path, kind, body = self.inbox.get()
            if (wait := due - time.monotonic()) > 0:
                self.inbox.put((due, number, path, kind, body))
                time.sleep(min(wait, 0.02))
                continue
            self.attempt(path, kind, body)

    def attempt(self, path: str, kind: str, body: Object) -> None:
        if path != SHOPS:
            self.observe(path, kind, body)
            return
        if kind == "LISTED":
            names = {item["metadata"]["name"] for item in body["items"]}
            self.shops = {name: shop for name, shop in self.shops.items() if name in names}
            for item in body["items"]:
                self.put(path, "ADDED", item)
            self.listed(body["items"])
            return
        name = body["metadata"]["name"]
        if kind == "RETRY":
            body = self.shops.get(name, body)
        elif kind == "DELETED":
            self.shops.pop(name, None)
        else:
            self.shops[name] = body
        try:
            if kind == "DELETED":
                self.deleted(body)
            elif name in self.shops:
                self.reconcile(kind, body)
        except (OSError, http.client.HTTPException, ValueError, Rejected) as error:
            print(f"{name}: {error!r}", flush=True)
            self.failed(kind, body)

    def failed(self, kind: str, body: Object) -> None:
        self.put(SHOPS, "RETRY", body, self.delay)

    def retry(self, shop: Object) -> None:
        self.put(SHOPS, "RETRY", shop)

    def reconcile(self, kind: str, shop: Object) -> None:
        raise NotImplementedError

    def deleted(self, shop: Object) -> None:
        pass

    def listed(self, shops: list[Object]) -> None:
        pass

    def observe(self, path: str, kind: str, body: Object) -> None:
        pass

    def apply(self, shop: Object, name: str, content: dict[str, str]) -> None:
        """Creates or replaces a ConfigMap."""
        wanted = controlled(shop, name, content)
        found = self.kube.get(f"{MAPS}/{name}")
        if found is None:
            self.kube.create(MAPS, wanted)
        elif found.get("data") != content:
            wanted["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            self.kube.replace(f"{MAPS}/{name}", wanted)
