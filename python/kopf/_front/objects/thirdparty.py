"""Objects of client libraries, recognised without importing the libraries."""

from __future__ import annotations

import abc
import importlib
from typing import Any, Protocol


class V1OwnerReferenceProtocol(Protocol):
    """An owner reference of the Kubernetes clients."""

    controller: bool
    block_owner_deletion: bool
    api_version: str
    kind: str
    name: str
    uid: str


class V1ObjectMetaProtocol(Protocol):
    """The metadata of the Kubernetes clients' models."""

    owner_references: list[Any]
    labels: dict[str, str]
    name: str
    namespace: str
    generate_name: str


class _ModelMeta(abc.ABCMeta):
    """Recognises instances by the package of their class."""

    _package: str

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        module = getattr(subclass, "__module__", "")
        return bool(module.startswith(f"{cls._package}.client.models."))


class KubernetesModelSync(metaclass=_ModelMeta):
    """A model of the package ``kubernetes``."""

    _package = "kubernetes"

    @property
    def metadata(self) -> V1ObjectMetaProtocol | None:
        raise NotImplementedError


class KubernetesModelAsync(metaclass=_ModelMeta):
    """A model of the package ``kubernetes_asyncio``."""

    _package = "kubernetes_asyncio"

    @property
    def metadata(self) -> V1ObjectMetaProtocol | None:
        raise NotImplementedError


class _PykubeMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return any(
            base.__name__ == "APIObject" and base.__module__.startswith("pykube.")
            for base in type(instance).__mro__
        )


class PykubeObject(metaclass=_PykubeMeta):
    """An object of the package ``pykube``."""

    obj: dict[str, Any]


def optional(module: str) -> Any | None:
    """Returns a module of another package, or ``None`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def make_model(sibling: object, name: str, fields: dict[str, Any]) -> Any:
    """Returns an instance of a model class of the same package as the given model."""
    package = type(sibling).__module__.partition(".")[0]
    module = importlib.import_module(f"{package}.client")
    return getattr(module, name)(**fields)
