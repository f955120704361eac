"""Conversion of plain values to dataclasses, with validation."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

from kopf._front.objects.models import key_of

__all__ = ["InvalidField", "build", "hints", "key_of"]


class InvalidField(Exception):
    """A value that does not match the type of its field."""

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        super().__init__(f"{'.'.join(map(str, path))}: {reason}")
        self.path = path
        self.reason = reason


@functools.cache
def hints(cls: type) -> dict[str, Any]:
    """Returns the types of the fields of a dataclass, with `Annotated` removed."""
    return typing.get_type_hints(cls)


def build(cls: Any, value: Any, path: tuple[str | int, ...] = ()) -> Any:
    """Returns an instance of a dataclass; unknown keys are ignored.

    Nested dataclasses, lists, tuples, sets, dicts, unions, literals, enums, dates and scalars are
    converted and validated. Values of other types are not changed.
    """
    if not isinstance(value, Mapping):
        raise InvalidField(path, f"must be an object, not {_name(value)}")
    types_ = hints(cls)
    kwargs = {}
    for field in dataclasses.fields(cls):
        key = key_of(field)
        if not field.init:
            continue
        if key in value:
            kwargs[field.name] = convert(types_[field.name], value[key], (*path, key))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InvalidField((*path, key), "the field is required")
    try:
        return cls(**kwargs)
    except (TypeError, ValueError) as exc:  # of `__post_init__`
        raise InvalidField(path, str(exc)) from exc


def convert(kind: Any, value: Any, path: tuple[str | int, ...]) -> Any:
    """Returns the value as the given type."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return convert(args[0], value, path)
    if origin is typing.Union or origin is types.UnionType:
        return _convert_union(args, value, path)
    if origin is typing.Literal:
        if value not in args:
            raise InvalidField(path, f"must be one of {', '.join(map(repr, args))}, not {value!r}")
        return value
    if origin is not None:
        return _convert_collection(origin, args, value, path)
    if isinstance(kind, type):
        return _convert_class(kind, value, path)
    return value


def _convert_union(args: tuple[Any, ...], value: Any, path: tuple[str | int, ...]) -> Any:
    if value is None and type(None) in args:
        return None
    failure: InvalidField | None = None
    for arg in args:
        if arg is not type(None):
            try:
                return convert(arg, value, path)
            except InvalidField as exc:
                failure = failure or exc
    raise failure or InvalidField(path, f"must be null, not {_name(value)}")


def _convert_collection(
    origin: Any, args: tuple[Any, ...], value: Any, path: tuple[str | int, ...]
) -> Any:
    if not isinstance(origin, type):
        return value
    if issubclass(origin, collections.abc.Mapping):
        if not isinstance(value, Mapping):
            raise InvalidField(path, f"must be an object, not {_name(value)}")
        return {key: convert(args[1], item, (*path, key)) for key, item in value.items()}
    if issubclass(origin, collections.abc.Collection):
        if not isinstance(value, list | tuple):
            raise InvalidField(path, f"must be a list, not {_name(value)}")
        items = [convert(args[0], item, (*path, index)) for index, item in enumerate(value)]
        return origin(items) if issubclass(origin, tuple | set | frozenset) else items
    return value


def _convert_class(kind: type, value: Any, path: tuple[str | int, ...]) -> Any:
    if dataclasses.is_dataclass(kind):
        return build(kind, value, path)
    if issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(repr(item.value) for item in kind)
            raise InvalidField(path, f"must be one of {choices}, not {value!r}") from None
    if kind is datetime.datetime and isinstance(value, str):
        try:
            return datetime.datetime.fromisoformat(value)
        except ValueError as exc:
            raise InvalidField(path, str(exc)) from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind not in _JSON_NAMES:
        return value
    # Booleans are integers in Python, but not in JSON.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidField(path, f"must be {_JSON_NAMES[kind]}, not {_name(value)}")
    return value


_JSON_NAMES: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    list: "a list",
    dict: "an object",
    datetime.datetime: "a timestamp",
    type(None): "null",
}


def _name(value: Any) -> str:
    name = _JSON_NAMES.get(type(value), type(value).__name__)
    return f"{name} ({value!r})" if isinstance(value, str | int | float) else name
