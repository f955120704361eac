"""The historical path of :mod:`kopf._front.bodies`."""

from __future__ import annotations

from kopf._front.bodies import (
    Annotations,
    Body,
    BodyEssence,
    build_object_reference,
    build_owner_reference,
    Labels,
    Meta,
    MetaEssence,
    ObjectReference,
    OwnerReference,
    RawBody,
    RawError,
    RawEvent,
    RawEventType,
    RawInput,
    RawInputType,
    RawMeta,
    Spec,
    Status,
)

__all__ = [
    "Annotations",
    "Body",
    "BodyEssence",
    "build_object_reference",
    "build_owner_reference",
    "Labels",
    "Meta",
    "MetaEssence",
    "ObjectReference",
    "OwnerReference",
    "RawBody",
    "RawError",
    "RawEvent",
    "RawEventType",
    "RawInput",
    "RawInputType",
    "RawMeta",
    "Spec",
    "Status",
]
