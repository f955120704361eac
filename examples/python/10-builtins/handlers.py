"""Built-in resources: deletes pods that are older than half a minute, except for system pods.

On a real cluster, restrict it to a namespace: it deletes all pods there.
"""

import datetime
import os

import kubernetes

import kopf


def is_not_of_the_system(namespace, **_):
    return not namespace.startswith("kube-")


@kopf.on.create("pods", when=is_not_of_the_system)
@kopf.on.resume("pods", when=is_not_of_the_system)
def delete_when_old(meta, name, namespace, logger, **_):
    created = datetime.datetime.fromisoformat(meta["creationTimestamp"])
    age = datetime.datetime.now(datetime.timezone.utc) - created
    left = float(os.environ.get("MAX_AGE", "30")) - age.total_seconds()
    if left > 0:
        raise kopf.TemporaryError("The pod is too young.", delay=left)
    kubernetes.client.CoreV1Api().delete_namespaced_pod(name=name, namespace=namespace)
    logger.info("The pod is too old and is deleted.")
