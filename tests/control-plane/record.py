#!/usr/bin/env python3
"""
Records the built-in kinds of a real API server for the sandbox.

The sandbox (sandbox/schema) serves the built-in kinds from these records: resources, schemas,
and columns of ``kubectl get``. Its tests use the samples as expected results.

Requires only the standard library. The output is deterministic for one version of Kubernetes (keys
are sorted, identifiers and times are normalised), so the diff of a new recording shows only the
differences of the new version.

Usage: see --help and README.md.
"""
import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import samples
import texts
from server import Refused, Server, connect, fail

DATA = Path(__file__).resolve().parents[2] / "sandbox" / "schema" / "data"

# Groups that are used with operators and do not require nodes.
GROUPS = {
    "", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "storage.k8s.io",
    "rbac.authorization.k8s.io", "coordination.k8s.io", "events.k8s.io", "apiextensions.k8s.io",
    "admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
    "discovery.k8s.io", "scheduling.k8s.io", "node.k8s.io", "certificates.k8s.io",
    "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io", "resource.k8s.io",
}

# Subresources that require a kubelet.
DROPPED = {
    ("", "pods/attach"), ("", "pods/exec"), ("", "pods/log"), ("", "pods/portforward"),
    ("", "pods/proxy"), ("", "services/proxy"), ("", "nodes/proxy"),
}

STABLE = re.compile(r"v\d+")

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def say(message: str) -> None:
    print(message, file=sys.stderr)


# --- Filters.

def is_kept(group: str, resource: str) -> bool:
    """Returns True if a resource (or "resource/subresource") is recorded."""
    return (group, resource) not in DROPPED


def filter_aggregated(document: dict[str, Any]) -> dict[str, Any]:
    groups = []
    for group in document["items"]:
        name = group["metadata"].get("name", "")
        if name not in GROUPS:
            continue
        versions = [
            {**version, "resources": filter_resources(name, version["resources"])}
            for version in group["versions"] if STABLE.fullmatch(version["version"])
        ]
        if versions:
            # The timestamp is the start of the server, not a property of the group.
            metadata = {k: v for k, v in group["metadata"].items() if k != "creationTimestamp"}
            groups.append({**group, "metadata": metadata, "versions": versions})
    return {**document, "items": groups}


def filter_resources(group: str, resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = []
    for resource in resources:
        name = resource["resource"]
        if not is_kept(group, name):
            continue
        subresources = [
            sub for sub in resource.get("subresources", [])
            if is_kept(group, f"{name}/{sub['subresource']}")
        ]
        kept.append({**resource, "subresources": subresources} if subresources else
                    {k: v for k, v in resource.items() if k != "subresources"})
    return kept


def group_versions(discovery: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Returns (group, version, path of the version) of all recorded versions."""
    found = []
    for root in ("api", "apis"):
        for group in discovery[root]["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                path = f"/apis/{name}" if name else "/api"
                found.append((name, version["version"], f"{path}/{version['version']}"))
    return found


# --- Discovery.

def record_discovery(server: Server) -> dict[str, Any]:
    documents = {}
    for root in ("api", "apis"):
        document = server.get(f"/{root}", accept=AGGREGATED)
        if document.get("kind") != "APIGroupDiscoveryList":
            fail(f"/{root}: the server has no aggregated discovery (v2); is it Kubernetes 1.30+?")
        documents[root] = filter_aggregated(document)
    missing = GROUPS - {group for group, _, _ in group_versions(documents)}
    if missing:
        fail(f"the server has no stable version of: {', '.join(sorted(missing))}")
    return documents


def record_legacy_discovery(server: Server, discovery: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, list[str]] = {}
    for group, version, _ in group_versions(discovery):
        kept.setdefault(group, []).append(version)

    core = server.get("/api")
    # The only response that contains the address of the server.
    for address in core["serverAddressByClientCIDRs"]:
        address["serverAddress"] = "127.0.0.1:6443"
    groups = server.get("/apis")
    groups["groups"] = [
        filter_legacy_group(group, kept) for group in groups["groups"] if group["name"] in kept]
    documents = {"/api": core, "/apis": groups}
    for group in groups["groups"]:
        path = f"/apis/{group['name']}"
        documents[path] = filter_legacy_group(server.get(path), kept)
    for group, _, path in group_versions(discovery):
        listed = server.get(path)
        listed["resources"] = [r for r in listed["resources"] if is_kept(group, r["name"])]
        documents[path] = listed
    return documents


def filter_legacy_group(group: dict[str, Any], kept: dict[str, list[str]]) -> dict[str, Any]:
    versions = kept[group["name"]]
    if group["preferredVersion"]["version"] not in versions:
        fail(f"the preferred version of {group['name']} is not stable: "
             f"{group['preferredVersion']['version']}")
    return {**group, "versions": [v for v in group["versions"] if v["version"] in versions]}


# --- Schemas.

def without_descriptions(value: Any, *, names: bool = False) -> Any:
    """
    Removes the descriptions, which are most of the size.

    With ``names``, the keys are names of properties, schemas or paths instead of keywords of OpenAPI:
    "description" can be such a name.
    """
    if isinstance(value, list):
        return [without_descriptions(item) for item in value]
    if not isinstance(value, dict):
        return value
    if names:
        return {k: without_descriptions(v) for k, v in value.items()}
    return {
        # Defaults are data, not schemas.
        k: v if k == "default" else without_descriptions(v, names=k in {"properties", "schemas", "paths"})
        for k, v in value.items() if k != "description"
    }


def slim_operation(operation: dict[str, Any]) -> dict[str, Any]:
    """Removes all content types of responses except JSON."""
    responses = {}
    for code, response in operation.get("responses", {}).items():
        content = response.get("content", {})
        responses[code] = {**response, "content": {
            k: v for k, v in content.items() if k == "application/json"}} if content else response
    return {**operation, "responses": responses}


def resource_of_path(path: str, prefix: str) -> str | None:
    """Returns the "resource/subresource" of a path; None for paths of the version itself."""
    parts = path[len(prefix):].strip("/").split("/")
    if parts[:2] == ["namespaces", "{namespace}"] and len(parts) > 2:
        parts = parts[2:]
    # Paths of namespaces have the form of paths of namespaced objects.
    elif parts[:2] == ["namespaces", "{name}"]:
        parts = ["namespaces", "{name}", *parts[2:]]
    names = [part for part in parts if part and not part.startswith("{")]
    return "/".join(names) if names else None


def references(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return set()
    found = set().union(*map(references, value.values()))
    if isinstance(value.get("$ref"), str):
        found.add(value["$ref"].rpartition("/")[2])
    return found


def filter_openapi(
        document: dict[str, Any], group: str, prefix: str, resources: set[str],
) -> dict[str, Any]:
    paths = {}
    for path, item in document["paths"].items():
        resource = resource_of_path(path, prefix)
        # The deprecated watch paths (/api/v1/watch/…) double the size, and are not used.
        if resource is not None and resource not in resources:
            continue
        paths[path] = {
            k: slim_operation(v) if isinstance(v, dict) else v for k, v in item.items()}
    schemas = document["components"]["schemas"]
    needed, todo = set(), references(paths)
    while todo:
        needed |= todo
        todo = set().union(*(references(schemas[name]) for name in todo)) - needed
    info = {"title": "Kubernetes", "version": document["info"]["version"]}
    return without_descriptions({
        **document,
        "info": info,
        "paths": paths,
        "components": {
            **document["components"],
            "schemas": {name: schemas[name] for name in needed},
        },
    })


def record_openapi(server: Server, discovery: dict[str, Any]) -> dict[str, Any]:
    """Returns the documents by file name."""
    documents = {}
    index = server.get("/openapi/v3")["paths"]
    resources = kept_resources(discovery)
    for group, version, path in group_versions(discovery):
        name = path.lstrip("/")
        if name not in index:
            fail(f"/openapi/v3 has no document for {name}")
        document = server.get(index[name]["serverRelativeURL"])
        document = filter_openapi(document, group, path, resources[group, version])
        documents[f"{name.replace('/', '__')}.json"] = document
    return documents


def kept_resources(discovery: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """Returns the recorded "resource" and "resource/subresource" by (group, version)."""
    found: dict[tuple[str, str], set[str]] = {}
    for root in ("api", "apis"):
        for group in discovery[root]["items"]:
            for version in group["versions"]:
                key = (group["metadata"].get("name", ""), version["version"])
                for resource in version["resources"]:
                    names = found.setdefault(key, set())
                    names.add(resource["resource"])
                    names.update(f"{resource['resource']}/{sub['subresource']}"
                                 for sub in resource.get("subresources", []))
    return found


def record_texts(server: Server) -> dict[str, Any]:
    """Returns the descriptions of all stable versions, including groups that are not recorded."""
    index = server.get("/openapi/v3")["paths"]
    stable = [path for path in sorted(index) if STABLE.fullmatch(path.rpartition("/")[2])]
    return texts.collect(server.get(index[path]["serverRelativeURL"]) for path in stable)


# --- Columns.

def record_tables(server: Server, discovery: dict[str, Any]) -> dict[str, Any]:
    tables = {}
    for root in ("api", "apis"):
        for group in discovery[root]["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                prefix = f"/apis/{name}" if name else "/api"
                for resource in version["resources"]:
                    if "list" not in resource["verbs"]:
                        continue
                    path = f"{prefix}/{version['version']}/{resource['resource']}"
                    table = server.get(path, accept=TABLE)
                    key = f"{name}/{version['version']}/{resource['resource']}".lstrip("/")
                    tables[key] = [
                        {k: v for k, v in column.items() if k != "description"}
                        for column in table["columnDefinitions"]
                    ]
    return tables


# --- Roles.

def record_roles(server: Server) -> list[dict[str, Any]]:
    """Returns the roles and bindings that a server creates at its start."""
    objects = []
    for resource, kind in (
            ("clusterrolebindings", "ClusterRoleBinding"), ("clusterroles", "ClusterRole"),
            ("rolebindings", "RoleBinding"), ("roles", "Role")):
        for item in server.get(f"/apis/rbac.authorization.k8s.io/v1/{resource}")["items"]:
            metadata = item["metadata"]
            # All others were created by other clients.
            if metadata.get("labels", {}).get("kubernetes.io/bootstrapping") != "rbac-defaults":
                continue
            kept = {k: v for k, v in metadata.items()
                    if k in {"name", "namespace", "labels", "annotations"}}
            fields = {k: v for k, v in item.items()
                      if k in {"rules", "aggregationRule", "roleRef", "subjects"}}
            objects.append({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": kept, **fields})
    objects.sort(key=lambda o: (
        o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]))
    return objects


# --- Writing.

def write(path: Path, document: Any, *, pretty: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        document, sort_keys=True, ensure_ascii=False,
        indent=1 if pretty else None, separators=(",", ": ") if pretty else (",", ":"))
    path.write_text(text + "\n", encoding="utf-8")
    say(f"{len(text) / 1024:8.1f} KiB  {path.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--kubeconfig", help="kubeconfig of an administrator; its current context is used")
    parser.add_argument("--kubectl", help="program that reads the kubeconfig")
    parser.add_argument("--server", help="URL, instead of a kubeconfig")
    parser.add_argument("--ca", help="file of the server's certificate authority")
    parser.add_argument("--token", help="bearer token of an administrator")
    parser.add_argument("--output", type=Path, default=DATA, help="folder to write to")
    parser.add_argument("--only-texts", action="store_true", help="write only texts.json")
    args = parser.parse_args()
    server = connect(args)
    output: Path = args.output
    try:
        if args.only_texts:
            write(output / "texts.json", record_texts(server))
        else:
            record(server, output)
    except Refused as e:
        fail(str(e))


def record(server: Server, output: Path) -> None:
    version = server.get("/version")
    say(f"recording from Kubernetes {version['gitVersion']}")
    discovery = record_discovery(server)
    legacy = record_legacy_discovery(server, discovery)
    openapi = record_openapi(server, discovery)
    descriptions = record_texts(server)
    tables = record_tables(server, discovery)
    roles = record_roles(server)
    recorded = samples.record(server, say)

    # Written after all requests, so that a failure keeps the old records. Documents of removed
    # kinds are deleted.
    shutil.rmtree(output / "openapi", ignore_errors=True)
    write(output / "version.json", version, pretty=True)
    write(output / "discovery.json", discovery)
    write(output / "discovery-legacy.json", legacy)
    for name, document in openapi.items():
        write(output / "openapi" / "v3" / name, document)
    write(output / "texts.json", descriptions)
    write(output / "rbac.json", roles)
    write(output / "tables.json", tables)
    write(output / "samples" / "tables.json", recorded.tables, pretty=True)
    write(output / "defaults.json", recorded.defaults, pretty=True)


if __name__ == "__main__":
    main()
