"""Creates objects that the operators of release/operators.sh handle, and waits for the results.

Usage: operators.py KUBECONFIG EXAMPLES
"""

import pathlib
import sys

import yaml

from kopf.testing import ClusterClient


def main() -> None:
    kubeconfig, examples = sys.argv[1], pathlib.Path(sys.argv[2])
    client = ClusterClient(kubeconfig)
    for name in ("crd.yaml", "deploy/crds.yaml"):
        with open(examples / name) as file:
            for definition in filter(None, yaml.safe_load_all(file)):
                client.create(definition)
    client.create({
        "apiVersion": "kopf.dev/v1", "kind": "Tenant",
        "metadata": {"name": "acme", "namespace": "default"}, "spec": {"plan": "large"},
    })
    client.create({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {"name": "greeted", "namespace": "default"}, "spec": {},
    })
    # One operator creates the NATS object, the other one its Service, and the first one completes the tenant.
    client.wait("tenants.kopf.dev", "acme", lambda body: body.get("status", {}).get("phase") == "ready")
    client.wait("services", "nats-acme", lambda body: body is not None)
    client.wait("kopfexamples.kopf.dev", "greeted", lambda body: "create_fn" in body.get("status", {}))


if __name__ == "__main__":
    main()
