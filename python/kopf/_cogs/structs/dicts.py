"""The historical path of :mod:`kopf._front.dicts`."""

from __future__ import annotations

from kopf._front.dicts import (
    cherrypick,
    ensure,
    FieldPath,
    FieldSpec,
    MappingView,
    MutableMappingView,
    parse_field,
    remove,
    ReplaceableMappingView,
    resolve,
    resolve_obj,
    walk,
)

__all__ = [
    "cherrypick",
    "ensure",
    "FieldPath",
    "FieldSpec",
    "MappingView",
    "MutableMappingView",
    "parse_field",
    "remove",
    "ReplaceableMappingView",
    "resolve",
    "resolve_obj",
    "walk",
]
