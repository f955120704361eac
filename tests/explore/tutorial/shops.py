"""The operator of docs/test/explore.md, with its bug."""

import kubernetes
from kubernetes.client import CoreV1Api, CustomObjectsApi

kubernetes.config.load_kube_config()
shops, core = CustomObjectsApi(), CoreV1Api()
API = ("zoo.example.com", "v1", "default", "shops")


def open_shop(shop):
    if "shelf" in shop.get("status", {}):
        return
    meta = shop["metadata"]
    owner = {"apiVersion": shop["apiVersion"], "kind": "Shop", "name": meta["name"], "uid": meta["uid"]}
    shelf = core.create_namespaced_config_map("default", {
        "metadata": {"generateName": "shelf-", "ownerReferences": [owner]},
        "data": {"size": str(shop["spec"]["size"])}})
    status = {"status": {"shelf": shelf.metadata.name}}
    shops.patch_namespaced_custom_object(*API, meta["name"], status)


for event in kubernetes.watch.Watch().stream(shops.list_namespaced_custom_object, *API):
    if event["type"] != "DELETED":
        open_shop(event["object"])
