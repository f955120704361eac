"""Prints the published crates of `cargo metadata` (on stdin), each after its dependencies.

Reports crates without metadata that registries show or require.

Usage: order.py [CRATE…]
"""

import graphlib
import json
import sys

REQUIRED = ("description", "license", "repository", "readme", "keywords", "categories")


def main() -> None:
    packages = {
        package["name"]: package
        for package in json.load(sys.stdin)["packages"]
        if package["publish"] != []
    }
    missing = [
        f"{name} has no {field}"
        for name, package in packages.items()
        for field in REQUIRED
        if not package[field]
    ]
    if missing:
        raise SystemExit("\n".join(f"error: {problem}" for problem in missing))
    # Dev-dependencies have no version, and are removed from packages.
    graph = {
        name: {
            dependency["name"]
            for dependency in package["dependencies"]
            if dependency["kind"] != "dev" and dependency["name"] in packages
        }
        for name, package in packages.items()
    }
    wanted = sys.argv[1:]
    for name in graphlib.TopologicalSorter(graph).static_order():
        if not wanted or name in wanted:
            print(name)


if __name__ == "__main__":
    main()
