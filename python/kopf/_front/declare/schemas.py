"""Custom resource definitions of models: `@kopf.crd` and the command `kopf crd`."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from kopf._front.declare import registries
from kopf._front.declare.registries import OperatorRegistry
from kopf._front.objects import models

__all__ = ["Declaration", "PrinterColumn", "crd", "declared", "to_manifests", "to_yaml"]

ColumnType = Literal["string", "integer", "number", "boolean", "date"]

_C = TypeVar("_C", bound=type)


@dataclasses.dataclass(frozen=True)
class PrinterColumn:
    """A column that ``kubectl get`` shows for a custom resource.

    Arguments:

    - ``name``: the title of the column.
    - ``path``: the JSON path of the value, such as ``.spec.host``.
    - ``type``: ``"string"`` (the default), ``"integer"``, ``"number"``, ``"boolean"`` or ``"date"``.
    - ``description``: for ``kubectl explain``; none by default.
    - ``priority``: columns above 0 are shown only with ``-o wide``; 0 by default.
    - ``format``: a format of OpenAPI, such as ``"int32"``; none by default.

    ::

        import dataclasses

        @kopf.crd("kopf.dev", "v1", "gateways", columns=[
            kopf.PrinterColumn("Host", ".spec.host"),
            kopf.PrinterColumn("Ready", ".status.ready", type="boolean", priority=1),
        ])
        @dataclasses.dataclass
        class GatewaySpec:
            host: str
    """

    name: str
    path: str
    type: ColumnType = "string"
    description: str | None = None
    priority: int = 0
    format: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name of a printer column is empty: set the header of the column")
        if not self.path.startswith((".", "[")):
            raise ValueError(
                f"invalid path {self.path!r} of printer column {self.name!r}: must be a JSON path such as "
                f"'.{self.path or 'spec.field'}'"
            )
        if self.type not in _COLUMN_TYPES:
            raise ValueError(
                f"invalid type {self.type!r} of printer column {self.name!r}: must be one of "
                f"{', '.join(map(repr, _COLUMN_TYPES))}"
            )

    def to_manifest(self) -> dict[str, Any]:
        """Returns the column as in CRDs."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        options = {
            "description": self.description, "priority": self.priority, "format": self.format,
        }
        return column | {key: value for key, value in options.items() if value}


_COLUMN_TYPES = ("string", "integer", "number", "boolean", "date")


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


_Declarations = dict[tuple[str, str, str], Declaration]

_declared: _Declarations = {}

#: The declarations of single registries.
_owned: weakref.WeakKeyDictionary[OperatorRegistry, _Declarations] = weakref.WeakKeyDictionary()


def crd(
    group: str,
    version: str,
    plural: str,
    *,
    kind: str | None = None,
    singular: str | None = None,
    scope: Literal["Namespaced", "Cluster"] = "Namespaced",
    status: type | None = None,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    columns: Sequence[PrinterColumn | Mapping[str, Any]] = (),
    subresource: bool = True,
    storage: bool | None = None,
    registry: OperatorRegistry | None = None,
) -> Callable[[_C], _C]:
    """Declares a model as the spec of a custom resource. ``kopf crd`` prints the CRD, and
    ``kopf run --install-crds`` installs it.

    The model is a dataclass or a class of pydantic. It is not changed: it selects the resource in
    decorators, annotates arguments of handlers, and its instances can be applied with
    :func:`kopf.apply_child`. A model with a field ``spec`` is the whole body.

    Arguments:

    - ``group``, ``version``, ``plural``: the names of the resource; required, by position or by name.
    - ``kind``: by default, the name of the class without ``Spec``.
    - ``singular``: by default, the kind in lower case.
    - ``scope``: ``"Namespaced"`` (the default) or ``"Cluster"``.
    - ``status``: a model of the status; without it, the status accepts arbitrary fields, because handlers
      store results there.
    - ``short_names``: short names for kubectl; none by default.
    - ``categories``: categories for kubectl, such as ``all``; none by default.
    - ``columns``: what ``kubectl get`` shows: :class:`kopf.PrinterColumn`, or dicts as in CRDs.
    - ``subresource``: ``False`` leaves out the status subresource; ``True`` by default.
    - ``storage``: several versions of a resource form one CRD; the last one is the storage version unless
      ``storage=True`` selects another.
    - ``registry``: installs the CRD only with operators of this registry; by default, with all operators
      of the process.

    ::

        import dataclasses

        @kopf.crd("kopf.dev", "v1", "kopfexamples")
        @dataclasses.dataclass
        class KopfExampleSpec:
            replicas: int = 1

        @kopf.on.create(KopfExampleSpec)
        def create_fn(spec: KopfExampleSpec, logger, **_):
            logger.info(f"{spec.replicas} replicas")
    """
    if registry is not None and not isinstance(registry, OperatorRegistry):
        raise TypeError(f"invalid registry {registry!r}: must be a kopf.OperatorRegistry")

    def decorator(cls: _C) -> _C:
        # A class with annotations can become a dataclass by the next decorator.
        if not getattr(cls, "__annotations__", None):
            _verify_model(cls)
        name = kind or cls.__name__.removesuffix("Spec")
        models.register(cls, models.ModelResource(group, version, plural, name))
        target = _declared if registry is None else _owned.setdefault(registry, {})
        target[group, plural, version] = Declaration(
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
            columns=tuple(map(_column, columns)),
            subresource=subresource,
            storage=storage,
        )
        return cls

    return decorator


def _column(column: PrinterColumn | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(column, PrinterColumn):
        return column.to_manifest()
    if isinstance(column, Mapping):
        return column
    raise TypeError(
        f"invalid printer column {column!r}: must be a kopf.PrinterColumn, or a dict as in CRDs"
    )


def _verify_model(model: type) -> None:
    from kopf._front.declare import structural

    if not structural.is_model(model):
        name = getattr(model, "__qualname__", repr(model))
        raise ValueError(
            f"{name} of @kopf.crd is not a model: derive it from pydantic.BaseModel, or decorate it "
            f"with @dataclasses.dataclass"
        )


def declared(registry: OperatorRegistry | None = None) -> list[Declaration]:
    """Returns the declarations of the process and of the registry, in the order of declaration.

    The default registry is that of the decorators.
    """
    registry = registry if registry is not None else registries.get_default_registry()
    return list({**_declared, **_owned.get(registry, {})}.values())


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
