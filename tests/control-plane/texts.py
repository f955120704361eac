"""
Collects the descriptions of OpenAPI documents for the sandbox.

The recorded documents (record.py) have no descriptions. They are stored separately and once: most
schemas are part of several documents, and most parameters are part of all operations.
"""
from collections.abc import Iterable
from typing import Any

# Keys below these words are names of properties, schemas or paths: "description" can be such a name.
NAMED = {"properties", "schemas", "paths"}


class Texts:
    """Descriptions, each stored once and referenced by its position."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}

    def position(self, text: str) -> int:
        return self.positions.setdefault(text, len(self.positions))

    def tree(self, value: Any, *, names: bool = False) -> Any:
        """
        Returns the descriptions of a part of a document: None without any, a position for a description
        of this part alone, else an object with the descriptions of its members (its own under "").
        """
        if isinstance(value, list):
            value, names = {str(i): item for i, item in enumerate(value)}, True
        if not isinstance(value, dict):
            return None
        found = {}
        for key, member in value.items():
            if not names and key == "description":
                found[""] = self.position(member)
            elif names or key != "default":  # Defaults are data, not schemas.
                below = self.tree(member, names=not names and key in NAMED)
                if below is not None:
                    found[key] = below
        if list(found) == [""]:
            return found[""]
        return found or None


def collect(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns the descriptions of complete OpenAPI v3 documents."""
    texts = Texts()
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for document in documents:
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            tree = texts.tree(schema)
            if schemas.setdefault(name, tree) != tree:
                raise ValueError(f"two documents describe {name} differently")
        for path, item in document["paths"].items():
            # The recorded documents do not have these paths.
            if "/watch/" not in path:
                paths[path] = texts.tree(item)
    return {
        "schemas": {name: tree for name, tree in schemas.items() if tree is not None},
        "paths": {path: tree for path, tree in paths.items() if tree is not None},
        "texts": list(texts.positions),
    }
