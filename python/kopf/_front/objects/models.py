"""Models as objects of the cluster: declared by `@kopf.crd`, or of client libraries."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from kopf._front.objects import thirdparty

__all__ = ["ModelResource", "find", "is_body", "key_of", "register", "to_manifest"]


class ModelResource(NamedTuple):
    """The resource of a declared model."""

    group: str
    version: str
    plural: str
    kind: str


_resources: dict[type, ModelResource] = {}


def register(model: type, resource: ModelResource) -> None:
    """Remembers the resource of a model."""
    _resources[model] = resource


def find(model: type) -> ModelResource | None:
    """Returns the resource of a model, `None` if it is not declared.

    `@dataclasses.dataclass(slots=True)` above `@kopf.crd` replaces the class by one of the same name.
    """
    if model in _resources:
        return _resources[model]
    names = (model.__module__, model.__qualname__)
    same = [item for cls, item in _resources.items() if (cls.__module__, cls.__qualname__) == names]
    return same[-1] if same else None


def is_body(model: type) -> bool:
    """Returns `True` if a model is the whole object, because it has a field `spec`."""
    fields = ("model_fields", "__fields__", "__dataclass_fields__")
    return any("spec" in (getattr(model, name, None) or ()) for name in fields)


def key_of(field: dataclasses.Field[Any]) -> str:
    """Returns the key of a field in objects: its name, or `alias` of the field's metadata."""
    return str(field.metadata.get("alias", field.name))


def to_manifest(obj: Any) -> dict[str, Any]:
    """Returns an object as a dict: a dict itself, a declared model, or an object of a client library.

    Absent values (`None`) of models are left out.
    """
    resource = None if isinstance(obj, Mapping) else find(type(obj))
    manifest = _dump(obj)
    if resource is None:
        return _with_kind(obj, manifest)
    if not is_body(type(obj)):
        manifest = {"spec": manifest}
    version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    return {"apiVersion": version, "kind": resource.kind, **manifest}


def _dump(obj: Any) -> dict[str, Any]:
    if isinstance(obj, thirdparty.PykubeObject):
        obj = obj.obj
    if isinstance(obj, Mapping):
        return dict(obj)
    dumped = None if isinstance(obj, type) else _plain(obj)
    if isinstance(dumped, Mapping):
        return dict(dumped)
    raise TypeError(
        f"invalid child {obj!r}: must be a dict with apiVersion and kind, a model declared with @kopf.crd, "
        f"or an object of kubernetes, kubernetes_asyncio, pykube or lightkube"
    )


def _plain(value: Any) -> Any:
    """Returns the JSON value of a model and of everything in it."""
    match value:
        case None | str() | bool() | int() | float():
            return value.value if isinstance(value, enum.Enum) else value
        case enum.Enum():
            return value.value
        case datetime.datetime() | datetime.date():
            return value.isoformat()
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
    if hasattr(value, "model_dump"):  # pydantic, and recent releases of `kubernetes`
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if hasattr(value, "openapi_types") and hasattr(value, "attribute_map"):
        names = value.attribute_map.items()
        return _present((key, getattr(value, name, None)) for name, key in names)
    if dataclasses.is_dataclass(value) and not hasattr(value, "to_dict"):
        fields = dataclasses.fields(value)
        return _present((key_of(field), getattr(value, field.name)) for field in fields)
    if hasattr(value, "to_dict"):  # lightkube
        return _plain(value.to_dict())
    return value


def _present(items: Any) -> dict[str, Any]:
    return {key: _plain(value) for key, value in items if value is not None}


def _with_kind(obj: Any, manifest: dict[str, Any]) -> dict[str, Any]:
    """Adds the kind that the class of an object implies, such as those of lightkube and pykube."""
    known = getattr(getattr(type(obj), "_api_info", None), "resource", None)
    group, version = getattr(known, "group", None), getattr(known, "version", None)
    implied = {
        "apiVersion": f"{group}/{version}" if group else version,
        "kind": getattr(known, "kind", None),
    }
    if isinstance(obj, thirdparty.PykubeObject):
        implied = {"apiVersion": getattr(obj, "version", None), "kind": getattr(obj, "kind", None)}
    absent = {key: value for key, value in implied.items() if value and not manifest.get(key)}
    return {**absent, **manifest} if absent else manifest
