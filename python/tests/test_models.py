"""Models declared with `@kopf.crd`: as resources of decorators, as children, with their columns."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
from collections.abc import Iterator
from typing import Any

import kopf
import pydantic
import pytest
from behaviour import Stage, until
from kopf._front.declare import schemas
from kopf._front.objects import models
from kopf._front.objects.references import Resource, Selector


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    declared, resources = schemas._declared.copy(), models._resources.copy()
    schemas._declared.clear()  # those of other tests
    yield
    for now, before in ((schemas._declared, declared), (models._resources, resources)):
        now.clear()
        now.update(before)  # type: ignore[arg-type]


def declare() -> type:
    @kopf.crd("kopf.dev", "v1", "gateways")
    @dataclasses.dataclass
    class GatewaySpec:
        host: str = "localhost"

    return GatewaySpec


RESOURCE_DECORATORS = sorted(
    name for name, fn in vars(kopf.on).items()
    if inspect.isfunction(fn) and "arg1" in inspect.signature(fn).parameters
)


@pytest.mark.parametrize("name", RESOURCE_DECORATORS)
def test_all_decorators_accept_models(name: str, registry: kopf.OperatorRegistry) -> None:
    needed = {
        "convert": {"source": "v1", "target": "v2"}, "timer": {"interval": 1},
        "field": {"field": "spec"},
    }
    decorator = getattr(kopf.on, name)(declare(), **needed.get(name, {}))
    decorator(lambda **_: None)
    lists = [one for one in vars(registry).values() if hasattr(one, "_handlers")]
    [handler] = [handler for one in lists for handler in one._handlers]
    selector = handler.owns[0] if name == "child" else handler.selector
    assert (selector.group, selector.version, selector.plural) == ("kopf.dev", "v1", "gateways")


def test_models_select_their_resource_only() -> None:
    selector = Selector(declare())
    assert selector.is_specific
    gateway = Resource("kopf.dev", "v1", "gateways", kind="Gateway", preferred=False)
    assert selector.check(gateway)
    assert not selector.check(dataclasses.replace(gateway, group="other.dev"))
    assert not selector.check(dataclasses.replace(gateway, version="v2"))
    assert not selector.check(dataclasses.replace(gateway, plural="others"))


def test_models_are_options_as_well(registry: kopf.OperatorRegistry) -> None:
    model = declare()
    kopf.on.create("kopfexamples", owns=[model])(lambda **_: None)
    kopf.on.child("pods", parent=model)(lambda **_: None)
    [creating], [child] = registry._changing._handlers, registry._children._handlers
    assert creating.owns is not None and creating.owns[0].plural == "gateways"
    assert child.selector is not None and child.selector.plural == "gateways"


def test_replaced_classes_are_recognised() -> None:
    @dataclasses.dataclass(slots=True)
    @kopf.crd("kopf.dev", "v1", "slotted")
    class SlottedSpec:
        x: int = 1

    assert Selector(SlottedSpec).plural == "slotted"


def test_undeclared_classes_are_rejected() -> None:
    class Gateway:
        pass

    with pytest.raises(TypeError) as error:
        kopf.on.create(Gateway)(lambda **_: None)
    assert str(error.value).endswith(
        'Gateway: the class is not declared; add @kopf.crd("example.com", "v1", "gateways") to it, or '
        "name the resource by strings")
    with pytest.raises(TypeError, match="names its resource: remove the other positional arguments"):
        kopf.on.create(declare(), "v1")(lambda **_: None)


def test_declarations_of_a_registry_are_its_own(registry: kopf.OperatorRegistry) -> None:
    other = kopf.OperatorRegistry()

    @kopf.crd("kopf.dev", "v1", "owned", registry=other)
    @dataclasses.dataclass
    class OwnedSpec:
        x: int = 1

    declare()
    assert [one.plural for one in schemas.declared()] == ["gateways"]
    assert [one.plural for one in schemas.declared(other)] == ["gateways", "owned"]
    with pytest.raises(TypeError, match="invalid registry 'text': must be a kopf.OperatorRegistry"):
        kopf.crd("kopf.dev", "v1", "owned", registry="text")  # type: ignore[arg-type]


def test_printer_columns_are_those_of_crds() -> None:
    columns: list[Any] = [
        kopf.PrinterColumn("Host", ".spec.host"),
        kopf.PrinterColumn(
            "Size", ".spec.size", type="integer", description="The size.", priority=1, format="int32"),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    kopf.crd("kopf.dev", "v1", "gateways", columns=columns)(declare())
    [manifest] = schemas.to_manifests(schemas.declared())
    assert manifest["spec"]["versions"][0]["additionalPrinterColumns"] == [
        {"name": "Host", "type": "string", "jsonPath": ".spec.host"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "The size.",
         "priority": 1, "format": "int32"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


@pytest.mark.parametrize(("arguments", "message"), [
    (("Host", "spec.host"), "invalid path 'spec.host' of printer column 'Host': must be a JSON path such"
     " as '.spec.host'"),
    (("Host", ".spec.host", "int"), "invalid type 'int' of printer column 'Host': must be one of "
     "'string', 'integer', 'number', 'boolean', 'date'"),
    (("", ".spec.host"), "name of a printer column is empty: set the header of the column"),
])
def test_invalid_printer_columns_are_rejected(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        kopf.PrinterColumn(*arguments)
    assert str(error.value) == message


def test_other_printer_columns_are_rejected() -> None:
    with pytest.raises(TypeError, match="invalid printer column 'Host': must be a kopf.PrinterColumn"):
        kopf.crd("kopf.dev", "v1", "x", columns=["Host"])(declare())  # type: ignore[list-item]


class Level(enum.Enum):
    HIGH = "high"


@dataclasses.dataclass
class Part:
    level: Level
    since: datetime.datetime | None = None
    max_size: int | None = dataclasses.field(default=None, metadata={"alias": "maxSize"})


def test_instances_of_models_are_manifests() -> None:
    @kopf.crd("kopf.dev", "v1", "wholes")
    class WholeThing(pydantic.BaseModel):
        metadata: dict[str, str]
        spec: dict[str, int]
        extra: int | None = pydantic.Field(default=None, alias="camelCase")

    @kopf.crd("", "v1", "parts", kind="Part")
    @dataclasses.dataclass
    class PartSpec:
        parts: list[Part]

    part = PartSpec([Part(Level.HIGH, datetime.datetime(2026, 1, 2), max_size=5)])
    assert models.to_manifest(part) == {
        "apiVersion": "v1", "kind": "Part",
        "spec": {"parts": [{"level": "high", "since": "2026-01-02T00:00:00", "maxSize": 5}]},
    }
    whole = WholeThing(metadata={"name": "x"}, spec={"a": 1}, camelCase=3)
    assert models.to_manifest(whole) == {
        "apiVersion": "kopf.dev/v1", "kind": "WholeThing",
        "metadata": {"name": "x"}, "spec": {"a": 1}, "camelCase": 3,
    }


@pytest.mark.native
def test_handlers_of_models_are_called_and_apply_models(stage: Stage) -> None:
    seen: list[Any] = []
    model: Any = declare()
    for manifest in schemas.to_manifests(schemas.declared()):
        stage.cluster.create(manifest)

    @kopf.on.create("kopfexamples")
    async def fn(spec: Any, **_: Any) -> None:
        await kopf.apply_child(model(host=spec["host"]))

    @kopf.on.create(model)
    def gateway(spec: Any, name: str, **_: Any) -> None:
        seen.append((name, dict(spec)))

    with stage.operator():
        name = stage.create({"host": "example.com"})
        until(lambda: seen, "the call")
        stage.cluster.delete("customresourcedefinitions", "gateways.kopf.dev")
    assert seen == [(name, {"host": "example.com"})]


