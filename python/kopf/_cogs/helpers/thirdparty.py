"""The historical path of :mod:`kopf._front.thirdparty`."""

from __future__ import annotations

from kopf._front.thirdparty import (
    KubernetesModelAsync,
    KubernetesModelSync,
    PykubeObject,
    V1ObjectMetaProtocol,
    V1OwnerReferenceProtocol,
)

__all__ = [
    "KubernetesModelAsync",
    "KubernetesModelSync",
    "PykubeObject",
    "V1ObjectMetaProtocol",
    "V1OwnerReferenceProtocol",
]
