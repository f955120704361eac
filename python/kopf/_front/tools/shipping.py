"""`kopf rbac` and `kopf manifests`: descriptions of handlers and options for the native part."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

from kopf._front.bridge import lowering
from kopf._front.bridge.descriptions import HandlerDescription
from kopf._front.declare import schemas
from kopf._front.tools import loaders
from kopf._front.declare.handlers import ActivityHandler
from kopf._front.objects.references import Resource
from kopf._front.declare.registries import get_default_registry

__all__ = ["manifests", "rbac"]


def rbac(*, paths: Sequence[str], modules: Sequence[str], **options: Any) -> tuple[str, list[str]]:
    """Returns the roles of the handlers in files and modules, and remarks."""
    from kopf import _kopf

    loaders.preload(paths=paths, modules=modules)
    return _kopf.rbac(_handlers(), _describe(paths, modules, options))


def manifests(
    *, paths: Sequence[str], modules: Sequence[str], **options: Any
) -> tuple[str, list[str]]:
    """Returns the manifests of the handlers in files and modules, and remarks."""
    from kopf import _kopf

    loaders.preload(paths=paths, modules=modules)
    described = _describe(paths, modules, options)
    described["files"] = [*(f"--module={module}" for module in modules), *paths]
    return _kopf.manifests(_handlers(), described)


def _describe(
    paths: Sequence[str], modules: Sequence[str], options: dict[str, Any]
) -> dict[str, Any]:
    name = options["name"]
    if not name:
        first = pathlib.Path(paths[0]).absolute() if paths else None
        # The folder is more descriptive than a generic file name.
        if first is not None and first.stem in {"handlers", "main", "operator"}:
            first = first.parent
        name = first.stem if first is not None else (modules[0] if modules else "operator")
    return {
        **options,
        "name": name,
        "is_given": bool(options["name"]),
        "serve": list(options["serve"]),
        "allow": list(options["allow"]),
        "resource": _resource,
        "definitions": schemas.to_manifests(schemas.declared()),
        "other_definitions": _read(options["filenames"]),
    }


def _handlers() -> list[HandlerDescription]:
    return [
        lowering.lower(handler) for handler in lowering.all_handlers(get_default_registry())
        if not isinstance(handler, ActivityHandler)
    ]


def _resource(fields: dict[str, Any]) -> Resource:
    """Returns the resource with these fields, for callable selectors."""
    for name in ("shortcuts", "categories", "subresources", "verbs"):
        fields[name] = frozenset(fields[name])
    return Resource(**fields)


def _read(filenames: Sequence[str]) -> list[dict[str, Any]]:
    import yaml

    definitions: list[dict[str, Any]] = []
    for filename in filenames:
        try:
            documents = list(yaml.safe_load_all(pathlib.Path(filename).read_text()))
        except yaml.YAMLError as exc:
            raise ValueError(f"cannot read {filename} as YAML: {exc}") from exc
        definitions.extend(
            document for document in documents
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition"
        )
    return definitions
