"""Custom resource definitions of models: `@kopf.crd` and the command `kopf crd`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

__all__ = ["Declaration", "crd", "declared", "to_manifests", "to_yaml"]

_C = TypeVar("_C", bound=type)


@dataclasses.dataclass(frozen=True)
class Declaration:
    """One version of a custom resource, declared with a model."""

    model: type
    status: type | None
    group: str
    version: str
    plural: str
    kind: str
    singular: str
    scope: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[Mapping[str, Any], ...]
    subresource: bool
    storage: bool | None


_declared: dict[tuple[str, str, str], Declaration] = {}


def crd(
    group: str,
    version: str,
    plural: str,
    /,
    *,
    kind: str | None = None,
    singular: str | None = None,
    scope: Literal["Namespaced", "Cluster"] = "Namespaced",
    status: type | None = None,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    columns: Sequence[Mapping[str, Any]] = (),
    subresource: bool = True,
    storage: bool | None = None,
) -> Callable[[_C], _C]:
    """Declares a model as the spec of a custom resource; `kopf crd` prints the CRD.

        @kopf.crd("kopf.dev", "v1", "kopfexamples", status=ExampleStatus)
        class KopfExampleSpec(pydantic.BaseModel):
            replicas: int = 1

    The kind is the name of the class without `Spec`. A model with a field `spec` is the whole body.
    Without a model, the status accepts arbitrary fields, because handlers store results there.
    Several versions of a resource form one CRD; the last one is the storage version unless
    `storage=True` selects another. The class is not changed and can annotate arguments of handlers.
    """

    def decorator(cls: _C) -> _C:
        # A class with annotations can become a dataclass by the next decorator.
        if not getattr(cls, "__annotations__", None):
            _verify_model(cls)
        name = kind or cls.__name__.removesuffix("Spec")
        _declared[group, plural, version] = Declaration(
            model=cls,
            status=status,
            group=group,
            version=version,
            plural=plural,
            kind=name,
            singular=singular or name.lower(),
            scope=scope,
            short_names=tuple(short_names),
            categories=tuple(categories),
            columns=tuple(columns),
            subresource=subresource,
            storage=storage,
        )
        return cls

    return decorator


def _verify_model(model: type) -> None:
    from kopf._front.declare import structural

    if not structural.is_model(model):
        name = getattr(model, "__qualname__", repr(model))
        raise ValueError(
            f"{name} of @kopf.crd is not a model: derive it from pydantic.BaseModel, or decorate it "
            f"with @dataclasses.dataclass"
        )


def declared() -> list[Declaration]:
    """Returns all declarations of the process, in the order of declaration."""
    return list(_declared.values())


def to_manifests(declarations: Iterable[Declaration]) -> list[dict[str, Any]]:
    """Returns the CRDs of the declared resources, one per resource."""
    grouped: dict[tuple[str, str], list[Declaration]] = {}
    for declaration in declarations:
        grouped.setdefault((declaration.group, declaration.plural), []).append(declaration)
    return [_manifest(versions) for versions in grouped.values()]


def to_yaml(declarations: Iterable[Declaration]) -> str:
    """Returns the CRDs as YAML documents."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """A dumper that repeats equal parts, because tools for manifests do not all read anchors."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    manifests = to_manifests(declarations)
    text: str = yaml.dump_all(manifests, Dumper=Dumper, sort_keys=False, width=100)
    return text


def _manifest(versions: list[Declaration]) -> dict[str, Any]:
    last = versions[-1]
    stored = next((version for version in versions if version.storage), last)
    names: dict[str, Any] = {"plural": last.plural, "singular": last.singular, "kind": last.kind}
    if last.short_names:
        names["shortNames"] = list(last.short_names)
    if last.categories:
        names["categories"] = list(last.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{last.plural}.{last.group}"},
        "spec": {
            "group": last.group,
            "scope": last.scope,
            "names": names,
            "versions": [_version(version, version is stored) for version in versions],
        },
    }


def _version(declaration: Declaration, stored: bool) -> dict[str, Any]:
    version: dict[str, Any] = {"name": declaration.version, "served": True, "storage": stored}
    if declaration.subresource:
        version["subresources"] = {"status": {}}
    if declaration.columns:
        version["additionalPrinterColumns"] = [dict(column) for column in declaration.columns]
    version["schema"] = {"openAPIV3Schema": _schema(declaration)}
    return version


def _schema(declaration: Declaration) -> dict[str, Any]:
    from kopf._front.declare import structural

    for model in (declaration.model, declaration.status):
        if model is not None:
            _verify_model(model)
    schema = structural.schema_of(declaration.model)
    status = {"type": "object", **structural.ANYTHING}
    if declaration.status is not None:
        # Results of handlers are stored next to the fields of the model.
        status = {**structural.schema_of(declaration.status), **structural.ANYTHING}
    if "spec" in schema.get("properties", {}):
        # The API server adds these to all resources and permits no other schemas for them.
        for name in ("apiVersion", "kind", "metadata"):
            schema["properties"].pop(name, None)
        required = [name for name in schema.pop("required", []) if name in schema["properties"]]
        schema["properties"].setdefault("status", status)
        return {**schema, "required": required} if required else schema
    description = schema.pop("description", None)
    body: dict[str, Any] = {"type": "object", "properties": {"spec": schema, "status": status}}
    if description:
        body = {"description": description, **body}
    return {**body, "required": ["spec"]} if schema.get("required") else body
