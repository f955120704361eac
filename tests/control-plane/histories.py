#!/usr/bin/env python3
"""
Records random histories of an object on a real server, for the tests of server-side apply.

A history is a sequence of applies, patches and updates by several managers, with the result of
each: the object and the managers of its fields, or the conflicts. The requests depend only on the
seed, so that the same version of Kubernetes gives the same records.

Usage: histories.py --kubeconfig FILE
"""
import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from server import Refused, Server, connect, fail

OUTPUT = (Path(__file__).resolve().parents[2]
          / "sandbox" / "schema" / "data" / "samples" / "histories.json")
GROUP = "histories.example.com"
NAMESPACE = "histories"
CURRENT = "$current"

SPEC = {
    "replicas": {"type": "integer"},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "map": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "value": {"type": "integer"},
            "extra": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
    },
    "atomic": {"type": "array", "items": {"type": "string"}},
    "granular": {"type": "object", "additionalProperties": {"type": "string"}},
    "whole": {
        "type": "object", "x-kubernetes-map-type": "atomic",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    },
    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "port": {"x-kubernetes-int-or-string": True},
    "defaulted": {"type": "string", "default": "d"},
}


def definition() -> dict[str, Any]:
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": SPEC},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget",
                      "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": True, "storage": True,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    }


def some(r: random.Random, of: str, most: int) -> list[str]:
    return r.sample(of, r.randint(0, most))


def random_spec(r: random.Random) -> dict[str, Any]:
    def item(name: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name}
        if r.random() < .5:
            made["value"] = r.randint(1, 2)
        if r.random() < .4:
            made["extra"] = {key: r.choice("12") for key in some(r, "pqr", 2)}
        return made

    makers = {
        "replicas": lambda: r.randint(1, 3),
        "set": lambda: some(r, "abcde", 4),
        "map": lambda: [item(name) for name in some(r, "vwxyz", 4)],
        "atomic": lambda: some(r, "123", 2),
        "granular": lambda: {key: r.choice("12") for key in some(r, "abc", 3)},
        "whole": lambda: {key: r.choice("12") for key in some(r, "ab", 2)},
        "open": lambda: {
            key: r.choice([1, {"x": 1}, {"x": {"y": [1]}}, [1, 2], "s", {}])
            for key in some(r, "abc", 2)},
        "port": lambda: r.choice([1, "http"]),
        "defaulted": lambda: r.choice("de"),
    }
    return {name: make() for name, make in makers.items() if r.random() < .45}


def random_object(r: random.Random, name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if r.random() < .3:
        metadata["labels"] = {key: r.choice("12") for key in r.sample("abc", 2)}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata,
            "spec": random_spec(r)}


def random_step(r: random.Random, name: str) -> dict[str, Any]:
    """Returns a request. Its query contains the name of the manager."""
    manager, kind = r.choice("abc"), r.random()
    if kind < .65:
        query = f"fieldManager={manager}" + ("&force=true" if r.random() < .4 else "")
        return {"method": "PATCH", "type": "application/apply-patch+yaml", "sub": "",
                "query": query, "body": random_object(r, name)}
    if kind < .8:
        return {"method": "PATCH", "type": "application/merge-patch+json", "sub": "",
                "query": f"fieldManager=u{manager}", "body": {"spec": random_spec(r)}}
    if kind < .9:
        body = random_object(r, name)
        body["metadata"]["resourceVersion"] = CURRENT
        return {"method": "PUT", "type": "application/json", "sub": "",
                "query": f"fieldManager=u{manager}", "body": body}
    if kind < .95:
        return {"method": "PATCH", "type": "application/merge-patch+json", "sub": "",
                "query": "fieldManager=x", "body": {"metadata": {"managedFields": [{}]}}}
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name},
            "status": {"phase": r.choice("12")}}
    return {"method": "PATCH", "type": "application/apply-patch+yaml", "sub": "/status",
            "query": f"fieldManager={manager}&force=true", "body": body}


def essence(code: int, answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the part of a response that is the same on all servers."""
    if code >= 400:
        causes = answer.get("details", {}).get("causes", [])
        return {"code": code, "fields": sorted(cause.get("field", "") for cause in causes)}
    managers = [
        {key: value for key, value in entry.items() if key != "time"}
        for entry in answer["metadata"].get("managedFields", [])]
    managers.sort(key=lambda e: (e["manager"], e["operation"], e.get("subresource", "")))
    return {
        "code": code, "spec": answer.get("spec"), "status": answer.get("status"),
        "labels": answer["metadata"].get("labels"), "managers": managers,
    }


def play(server: Server, seed: int, length: int) -> list[dict[str, Any]]:
    r = random.Random(seed)
    name = f"h{seed}"
    path = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets/{name}"
    current, steps = "", []
    for _ in range(length):
        step = random_step(r, name)
        body = json.dumps(step["body"]).replace(CURRENT, current)
        code, answer = server.send(
            step["method"], f"{path}{step['sub']}?{step['query']}", body.encode(), step["type"])
        if code < 400:
            current = answer["metadata"]["resourceVersion"]
        steps.append({**step, "answer": essence(code, answer)})
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--kubeconfig", help="kubeconfig of an administrator; its current context is used")
    parser.add_argument("--kubectl", help="program that reads the kubeconfig")
    parser.add_argument("--server", help="URL, instead of a kubeconfig")
    parser.add_argument("--ca", help="file of the server's certificate authority")
    parser.add_argument("--token", help="bearer token of an administrator")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file to write to")
    args = parser.parse_args()
    server = connect(args)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path, body in (("/api/v1/namespaces", namespace), (crds, definition())):
        code, answer = server.send("POST", path, json.dumps(body).encode(), "application/json")
        if code != 201:
            fail(f"{path}: {code} {answer}")
    time.sleep(3)
    histories = [play(server, seed, 24) for seed in range(10)]
    text = json.dumps(
        {"definition": definition(), "histories": histories},
        sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    args.output.write_text(text + "\n", encoding="utf-8")
    print(f"{len(text) / 1024:.1f} KiB  {args.output.name}", file=sys.stderr)
    for path in (f"/api/v1/namespaces/{NAMESPACE}", f"{crds}/widgets.{GROUP}"):
        server.send("DELETE", path, b"", "application/json")


if __name__ == "__main__":
    try:
        main()
    except Refused as e:
        fail(str(e))
