"""A pod for each object. Kubernetes deletes the pod with its owner."""

import kubernetes

import kopf


@kopf.on.create("kopfexamples")
def create_pod(spec, namespace, logger, **_):
    duration = spec.get("duration")
    if not isinstance(duration, str):
        raise kopf.PermanentError(f"spec.duration must be a string such as 1m, not {duration!r}")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "busybox", "command": ["sh", "-c", f"sleep {duration}"]}
            ],
        },
    }
    # Sets the name, namespace, labels and owner reference.
    kopf.adopt(pod)

    # The default login has configured the client.
    api = kubernetes.client.CoreV1Api()
    created = api.create_namespaced_pod(namespace=namespace, body=pod)
    logger.info(f"Pod {created.metadata.name} is created.")
    return {"children": [created.metadata.uid]}
