"""The historical path of :mod:`kopf._front.hierarchies`."""

from __future__ import annotations

from kopf._front.hierarchies import (
    adjust_namespace,
    adopt,
    append_owner_reference,
    harmonize_naming,
    K8sObject,
    K8sObjects,
    label,
    remove_owner_reference,
)

__all__ = [
    "adjust_namespace",
    "adopt",
    "append_owner_reference",
    "harmonize_naming",
    "K8sObject",
    "K8sObjects",
    "label",
    "remove_owner_reference",
]
