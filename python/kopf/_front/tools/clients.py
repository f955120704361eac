"""A small client of clusters for tests of operators."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import pathlib
import ssl
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ClusterClient", "ClusterError"]


#: Seconds to wait for the API server to become ready for new resources.
_PATIENCE = 10


class ClusterError(Exception):
    """A response of the API server with an error, raised by :class:`kopf.testing.ClusterClient`.

    Arguments:

    - ``method``, ``path``: the request.
    - ``status``: the HTTP status of the response, such as 404; also an attribute.
    - ``body``: the response as a dict, usually a Kubernetes ``Status``; also an attribute.

    ::

        import kopf.testing

        with kopf.testing.sandbox("crd.yaml") as cluster:
            try:
                cluster.get("kopfexamples", "absent")
            except kopf.testing.ClusterError as error:
                assert error.status == 404
    """

    def __init__(self, method: str, path: str, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(f"{method} {path}: {status}: {body.get('message', body)}")
        self.status = status
        self.body = body


class ClusterClient:
    """A small client for tests, which creates, reads, changes and deletes objects of any cluster.

    Resources are plural names, with the group for those outside of the core API: ``pods``,
    ``deployments.apps``, ``kopfexamples.kopf.dev``. A plural name alone works if it is unique. The methods
    block, and can be used from several threads. :class:`kopf.testing.sandbox` has the same methods.

    Arguments:

    - ``kubeconfig``: the path of the file; its first cluster and first user are used.

    ::

        import kopf.testing

        with kopf.testing.sandbox() as cluster:
            client = kopf.testing.ClusterClient(cluster.kubeconfig)
            client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
            assert client.get("configmaps", "one")["kind"] == "ConfigMap"
    """

    def __init__(self, kubeconfig: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self.__kubeconfig = kubeconfig
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._headers: dict[str, str] = {}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
    ) -> Any:
        """Sends a request and returns the JSON of the response; errors raise `ClusterError`."""
        payload = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        deadline = time.monotonic() + _PATIENCE
        while True:
            status, content = self._exchange(method, path, payload, headers)
            # Real servers are briefly busy after new resources are created.
            if status != 429 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        try:
            result = json.loads(content) if content else {}
        except ValueError:
            result = {"message": content.decode(errors="replace").strip()}
        if status >= 400:
            raise ClusterError(method, path, status, result)
        return result

    def _exchange(
        self, method: str, path: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        with self._lock:
            is_reused = self._connection is not None
            try:
                return self._send(method, path, payload, headers)
            except (ConnectionError, ssl.SSLEOFError, http.client.HTTPException):
                # The server closes idle connections; other failures will repeat on a new
                # connection.
                self._connection = None
                if not is_reused:
                    raise
                return self._send(method, path, payload, headers)

    def _send(
        self, method: str, path: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        connection = self._connect()
        connection.request(method, path, body=payload, headers={**self._headers, **headers})
        response = connection.getresponse()
        return response.status, response.read()

    def create(self, manifest: Mapping[str, Any], *, namespace: str | None = None) -> Any:
        """Creates an object from a manifest and returns it; waits until CRDs are established."""
        missing = [key for key in ("apiVersion", "kind") if not manifest.get(key)]
        if missing:
            raise ValueError(f"invalid manifest: {missing[0]} is missing: {dict(manifest)!r}")
        api_version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
        root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
        resource = self._resource_of(root, kind)
        metadata = manifest.get("metadata") or {}
        namespace = namespace or metadata.get("namespace") or "default"
        scope = f"/namespaces/{namespace}" if resource["namespaced"] else ""
        path = f"{root}{scope}/{resource['name']}"
        created = self.request("POST", path, dict(manifest))
        if kind == "CustomResourceDefinition":
            name = created["metadata"]["name"]
            self.wait("customresourcedefinitions", name, _is_established, namespace=None)
        return created

    def _resource_of(self, root: str, kind: str) -> Any:
        """Returns the resource of a kind; waits for it, as discovery lags behind new CRDs."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(ClusterError):
                for resource in self.request("GET", root)["resources"]:
                    if resource["kind"] == kind and "/" not in resource["name"]:
                        return resource
            if time.monotonic() > deadline:
                raise LookupError(f"no resource of the kind {kind} in {root}: create its CRD first")
            time.sleep(0.2)

    def get(self, resource: str, name: str, *, namespace: str | None = "default") -> Any:
        """Returns an object."""
        return self.request("GET", self._path(resource, name, namespace))

    def all(self, resource: str, *, namespace: str | None = None) -> list[Any]:
        """Returns the objects of a namespace, or of all namespaces."""
        items: list[Any] = self.request("GET", self._path(resource, None, namespace))["items"]
        return items

    def patch(
        self,
        resource: str,
        name: str,
        patch: Any,
        *,
        namespace: str | None = "default",
        subresource: str | None = None,
    ) -> Any:
        """Applies a merge-patch, or a JSON-patch if it is a list, and returns the object."""
        kind = "json-patch" if isinstance(patch, (list, tuple)) else "merge-patch"
        path = self._path(resource, name, namespace)
        path = f"{path}/{subresource}" if subresource else path
        return self.request("PATCH", path, patch, content_type=f"application/{kind}+json")

    def delete(self, resource: str, name: str, *, namespace: str | None = "default") -> Any:
        """Requests the deletion of an object; finalizers can delay it."""
        return self.request("DELETE", self._path(resource, name, namespace))

    def wait(
        self,
        resource: str,
        name: str,
        condition: Callable[[Any], object] | None = None,
        *,
        namespace: str | None = "default",
        timeout: float = 30,
    ) -> Any:
        """Waits until the condition is true for the object, and returns it.

        Without a condition, waits until the object is deleted, and returns `None`; see `wait_deleted`.
        """
        deadline = time.monotonic() + timeout
        while True:
            found = self._find(resource, name, namespace)
            if condition is None and found is None:
                return None
            if condition is not None and found is not None and condition(found):
                return found
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"{resource}/{name} is not in the expected state after {timeout} s: {found}"
                )
            time.sleep(0.05)

    def wait_deleted(
        self, resource: str, name: str, *, namespace: str | None = "default", timeout: float = 30,
    ) -> None:
        """Waits until the object does not exist: after its finalizers are removed."""
        self.wait(resource, name, namespace=namespace, timeout=timeout)

    def close(self) -> None:
        """Closes the connection; the next request opens another one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _endpoint(self) -> tuple[str, str]:
        """Returns the URL of the server and the text of the kubeconfig."""
        import yaml

        if self.__kubeconfig is None:
            raise ValueError("a client needs a kubeconfig: pass its path")
        text = pathlib.Path(self.__kubeconfig).read_text(encoding="utf-8")
        return yaml.safe_load(text)["clusters"][0]["cluster"]["server"], text

    def _find(self, resource: str, name: str, namespace: str | None) -> Any:
        try:
            return self.get(resource, name, namespace=namespace)
        except ClusterError as exc:
            if exc.status != 404:
                raise
            return None

    def _path(self, resource: str, name: str | None, namespace: str | None) -> str:
        plural, _, group = resource.partition(".")
        root, namespaced = self._discover(plural, group or None)
        scope = f"/namespaces/{namespace}" if namespaced and namespace is not None else ""
        tail = f"/{urllib.parse.quote(name)}" if name is not None else ""
        return f"{root}{scope}/{plural}{tail}"

    def _discover(self, plural: str, group: str | None) -> tuple[str, bool]:
        groups = self.request("GET", "/apis")["groups"]
        preferred = {g["name"]: g["preferredVersion"]["groupVersion"] for g in groups}
        roots = {"": "/api/v1", **{name: f"/apis/{version}" for name, version in preferred.items()}}
        for name, root in roots.items():
            if group is not None and group != name:
                continue
            for found in self.request("GET", root)["resources"]:
                if found["name"] == plural:
                    return root, bool(found["namespaced"])
        raise LookupError(f"no resource {plural}{'.' + group if group else ''} in the cluster: create its CRD first, or add its group, as in 'deployments.apps'")

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            address, kubeconfig = self._endpoint()
            url = urllib.parse.urlsplit(address)
            if url.scheme == "http":
                self._connection = http.client.HTTPConnection(url.netloc)
            else:
                context, self._headers = _credentials(kubeconfig)
                self._connection = http.client.HTTPSConnection(url.netloc, context=context)
        return self._connection


def _is_established(crd: Any) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _credentials(kubeconfig: str) -> tuple[ssl.SSLContext, dict[str, str]]:
    """Returns the TLS context and the headers of a kubeconfig."""
    import yaml

    config = yaml.safe_load(kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = _content(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
    if certificate and key:
        # The ssl module reads certificates only from files.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return context, headers


def _content(section: Mapping[str, Any], key: str) -> bytes | None:
    """Returns the value of `key-data`, or the content of the file of `key`."""
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"])
    return pathlib.Path(section[key]).read_bytes() if key in section else None
