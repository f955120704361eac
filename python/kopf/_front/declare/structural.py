"""Structural schemas of Kubernetes (OpenAPI v3) from models."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any

from kopf._front.declare.structures import hints, key_of
from kopf._front.declare.typed import is_pydantic

__all__ = ["is_model", "schema_of"]

#: The schema of arbitrary values.
ANYTHING: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}

#: Keywords that are copied unchanged. Others have no meaning in structural schemas or are
#: forbidden.
_KEPT = (
    "type", "description", "format", "default", "enum", "pattern", "nullable", "multipleOf",
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", "required",
)  # fmt: skip


def is_model(model: Any) -> bool:
    """Returns `True` for models of pydantic and dataclasses."""
    return is_pydantic(model) or (isinstance(model, type) and dataclasses.is_dataclass(model))


def schema_of(model: type) -> dict[str, Any]:
    """Returns the schema of a model of pydantic or of a dataclass."""
    if is_pydantic(model):
        schema = _pydantic_schema(model)
        return _reduce(schema, {**schema.get("definitions", {}), **schema.get("$defs", {})}, ())
    return _of_type(model, ())


def _pydantic_schema(model: Any) -> dict[str, Any]:
    if hasattr(model, "model_json_schema"):
        schema: dict[str, Any] = model.model_json_schema(by_alias=True)
    elif hasattr(model, "schema"):
        schema = model.schema(by_alias=True)
    else:
        schema = sys.modules["pydantic"].TypeAdapter(model).json_schema(by_alias=True)
    return schema


def _reduce(
    schema: Mapping[str, Any] | bool, defs: Mapping[str, Any], seen: tuple[str, ...]
) -> dict[str, Any]:
    """Converts a JSON schema to a structural one, without references, titles and unions."""
    if isinstance(schema, bool) or not schema:
        return dict(ANYTHING)
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        if name in seen:
            # Structural schemas cannot be recursive.
            return {"type": "object", **ANYTHING}
        target = {**defs[name], **{key: value for key, value in schema.items() if key != "$ref"}}
        return _reduce(target, defs, (*seen, name))
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            rest = {name: value for name, value in schema.items() if name != key}
            return _reduce_union(schema[key], rest, defs, seen)

    result = {key: schema[key] for key in _KEPT if key in schema}
    if "const" in schema:
        result["enum"] = [schema["const"]]
        result.setdefault("type", _json_type(schema["const"]))
    _reduce_limits(schema, result)
    if result.get("default", 0) is None:
        del result["default"]
    if "items" in schema:
        result["items"] = _reduce(schema["items"], defs, seen)
    elif result.get("type") == "array":
        result["items"] = dict(ANYTHING)
    if "properties" in schema:
        result["properties"] = {
            name: _reduce(item, defs, seen) for name, item in schema["properties"].items()
        }
    elif isinstance(schema.get("additionalProperties"), Mapping):
        result["additionalProperties"] = _reduce(schema["additionalProperties"], defs, seen)
    elif result.get("type") == "object":
        result.update(ANYTHING)
    if schema.get("additionalProperties") is True:
        result.update(ANYTHING)
    if "type" not in result:
        result.update(ANYTHING)
    return result


def _reduce_limits(schema: Mapping[str, Any], result: dict[str, Any]) -> None:
    # Numbers in JSON schemas, booleans in OpenAPI v3.0.
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in schema:
            result[limit] = schema[exclusive]
            result[exclusive] = True


def _reduce_union(
    branches: list[Any], rest: dict[str, Any], defs: Mapping[str, Any], seen: tuple[str, ...]
) -> dict[str, Any]:
    present = [branch for branch in branches if branch != {"type": "null"}]
    nullable = {"nullable": True} if len(present) < len(branches) else {}
    if len(present) == 1:
        outer = {key: value for key, value in rest.items() if key != "title"}
        return {**_reduce({**present[0], **outer}, defs, seen), **nullable}
    kept = {key: rest[key] for key in ("description", "default") if rest.get(key) is not None}
    if {branch.get("type") for branch in present} == {"integer", "string"}:
        return {"x-kubernetes-int-or-string": True, **kept, **nullable}
    return {**ANYTHING, **kept, **nullable}


def _of_type(kind: Any, seen: tuple[type, ...]) -> dict[str, Any]:
    """Returns the schema of a type of a dataclass's field."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _of_type(args[0], seen)
    if origin is typing.Literal:
        return {"type": _json_type(args[0]), "enum": list(args)}
    if origin is typing.Union or origin is types.UnionType:
        branches = [{"type": "null"} if arg is type(None) else _of_type(arg, seen) for arg in args]
        return _merge_union(branches)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return {"type": "object", "additionalProperties": _of_type(args[1], seen)}
    if isinstance(origin, type) and issubclass(origin, collections.abc.Collection):
        return {"type": "array", "items": _of_type(args[0], seen)}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if kind in seen:
            return {"type": "object", **ANYTHING}
        return _of_dataclass(kind, (*seen, kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = [item.value for item in kind]
        return {"type": _json_type(values[0]), "enum": values}
    return _scalar(kind)


def _of_dataclass(cls: type, seen: tuple[type, ...]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        key = key_of(field)
        schema = properties[key] = _of_type(hints(cls)[field.name], seen)
        if "description" in field.metadata:
            schema["description"] = field.metadata["description"]
        if field.default is not dataclasses.MISSING:
            if isinstance(field.default, enum.Enum):
                schema["default"] = field.default.value
            elif field.default is not None:
                schema["default"] = field.default
        elif field.default_factory is dataclasses.MISSING:
            required.append(key)
    schema = {"type": "object", **_described(cls), "properties": properties}
    return {**schema, "required": required} if required else schema


def _described(cls: type) -> dict[str, Any]:
    """Returns the docstring of a dataclass as a description, unless it is the generated one."""
    doc = cls.__dict__.get("__doc__")
    if not isinstance(doc, str) or doc.startswith(f"{cls.__name__}("):
        return {}
    text = inspect.cleandoc(doc)
    return {"description": text} if text else {}


def _merge_union(branches: list[dict[str, Any]]) -> dict[str, Any]:
    present = [branch for branch in branches if branch != {"type": "null"}]
    nullable = {"nullable": True} if len(present) < len(branches) else {}
    if len(present) == 1:
        return {**present[0], **nullable}
    if {branch.get("type") for branch in present} == {"integer", "string"}:
        return {"x-kubernetes-int-or-string": True, **nullable}
    return {**ANYTHING, **nullable}


def _scalar(kind: Any) -> dict[str, Any]:
    scalars: dict[Any, dict[str, Any]] = {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        float: {"type": "number"},
        datetime.datetime: {"type": "string", "format": "date-time"},
        dict: {"type": "object", **ANYTHING},
        list: {"type": "array", "items": ANYTHING},
    }
    return dict(scalars.get(kind, ANYTHING))


def _json_type(value: Any) -> str:
    names: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "object")
