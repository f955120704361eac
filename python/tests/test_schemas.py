"""CRDs of models."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections.abc import Iterator
from typing import Any, Literal

import pydantic
import pytest
import yaml
from click.testing import CliRunner

from kopf import cli
from kopf._front.declare import schemas, structural

ANY = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    schemas._declared.clear()
    yield
    schemas._declared.clear()


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Port(pydantic.BaseModel):
    """A port."""

    number: int = pydantic.Field(ge=1, lt=65536)


class Model(pydantic.BaseModel):
    name: str
    port: Port
    ports: list[Port] = []
    maybe: int | None = None
    color: Color = Color.RED
    labels: dict[str, str] = {}
    free: dict[str, Any] = {}
    anything: Any = None
    either: int | str = 1
    mixed: Port | str | None = None
    mode: Literal["ro", "rw"] = "ro"
    fixed: Literal["x"] = "x"
    camel: int = pydantic.Field(5, alias="camelCase")
    child: Model | None = None
    unique: set[int] = set()


PORT = {
    "type": "object",
    "description": "A port.",
    "properties": {
        "number": {"type": "integer", "minimum": 1, "maximum": 65536, "exclusiveMaximum": True}
    },
    "required": ["number"],
}


def test_schemas_of_models_are_structural() -> None:
    schema = structural.schema_of(Model)
    assert schema["type"] == "object"
    assert schema["required"] == ["name", "port"]
    child = schema["properties"].pop("child")
    assert child["nullable"] is True
    assert schema["properties"] == {
        "name": {"type": "string"},
        "port": PORT,
        "ports": {"type": "array", "items": PORT, "default": []},
        "maybe": {"type": "integer", "nullable": True},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "default": {}},
        "free": {"type": "object", "default": {}, **ANY},
        "anything": ANY,
        "either": {"x-kubernetes-int-or-string": True, "default": 1},
        "mixed": {**ANY, "nullable": True},
        "mode": {"type": "string", "enum": ["ro", "rw"], "default": "ro"},
        "fixed": {"type": "string", "enum": ["x"], "default": "x"},
        "camelCase": {"type": "integer", "default": 5},
        "unique": {"type": "array", "items": {"type": "integer"}, "default": []},
    }


@dataclasses.dataclass
class Nested:
    size: int
    parent: Nested | None = None


@dataclasses.dataclass
class Plain:
    name: str = dataclasses.field(metadata={"description": "The name."})
    nested: list[Nested] = dataclasses.field(default_factory=list)
    color: Color = Color.BLUE
    ratio: float | None = None
    either: int | str = 1
    labels: dict[str, bool] = dataclasses.field(default_factory=dict)
    mode: Literal["ro", "rw"] = "ro"
    max_size: int = dataclasses.field(default=1, metadata={"alias": "maxSize"})
    anything: Any = None


def test_schemas_of_dataclasses_are_structural() -> None:
    nested = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "parent": {"type": "object", "nullable": True, **ANY},
        },
        "required": ["size"],
    }
    assert structural.schema_of(Plain) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name."},
            "nested": {"type": "array", "items": nested},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
            "ratio": {"type": "number", "nullable": True},
            "either": {"x-kubernetes-int-or-string": True, "default": 1},
            "labels": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "mode": {"type": "string", "enum": ["ro", "rw"], "default": "ro"},
            "maxSize": {"type": "integer", "default": 1},
            "anything": ANY,
        },
        "required": ["name"],
    }


def test_definitions_have_names_and_versions() -> None:
    schemas.crd("g.dev", "v1", "things", short_names=["th"], storage=True)(Nested)

    @schemas.crd("g.dev", "v2", "things", kind="Thing", scope="Cluster", status=Port)
    class ThingSpec(pydantic.BaseModel):
        x: int = 1

    (manifest,) = schemas.to_manifests(schemas.declared())
    assert manifest["metadata"]["name"] == "things.g.dev"
    assert manifest["spec"]["names"] == {"plural": "things", "singular": "thing", "kind": "Thing"}
    assert manifest["spec"]["scope"] == "Cluster"
    one, two = manifest["spec"]["versions"]
    assert (one["name"], one["storage"], two["name"], two["storage"]) == ("v1", True, "v2", False)
    assert two["subresources"] == {"status": {}}
    body = two["schema"]["openAPIV3Schema"]
    assert body["properties"]["spec"]["properties"] == {"x": {"type": "integer", "default": 1}}
    assert body["properties"]["status"]["properties"].keys() == {"number"}
    assert body["properties"]["status"]["x-kubernetes-preserve-unknown-fields"] is True
    assert one["schema"]["openAPIV3Schema"]["required"] == ["spec"]


def test_models_with_a_spec_describe_bodies() -> None:
    @schemas.crd("g.dev", "v1", "things")
    class Thing(pydantic.BaseModel):
        metadata: dict[str, Any]
        spec: Port

    (manifest,) = schemas.to_manifests(schemas.declared())
    body = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert body["properties"].keys() == {"spec", "status"}
    assert body["required"] == ["spec"]
    assert manifest["spec"]["names"]["kind"] == "Thing"


@pytest.mark.usefixtures("clean_imports")
def test_command_prints_definitions(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "models.py"
    path.write_text(
        "from __future__ import annotations\nimport dataclasses\n"
        "from kopf._front.declare.schemas import crd\n"
        "@crd('g.dev', 'v1', 'things')\n@dataclasses.dataclass\nclass Thing:\n    x: int\n"
    )
    result = CliRunner().invoke(cli.main, ["crd", str(path)])
    assert result.exit_code == 0, result.output
    (manifest,) = yaml.safe_load_all(result.stdout)
    assert manifest["kind"] == "CustomResourceDefinition"


def test_command_without_models_fails() -> None:
    result = CliRunner().invoke(cli.main, ["crd"])
    assert result.exit_code == 1
    assert "no model is declared" in result.output


@pytest.mark.native
def test_definitions_are_accepted_by_the_api_server() -> None:
    from kopf import testing

    schemas.crd("g.dev", "v1", "models", kind="Model")(Model)
    schemas.crd("g.dev", "v1", "plains", kind="Plain")(Plain)
    with testing.sandbox() as cluster:
        for manifest in schemas.to_manifests(schemas.declared()):
            cluster.create(manifest)
        spec = {"name": "x"}
        thing = {"apiVersion": "g.dev/v1", "kind": "Plain", "metadata": {"name": "a"}, "spec": spec}
        assert cluster.create(thing)["spec"]["maxSize"] == 1


def test_classes_other_than_models_are_rejected() -> None:
    with pytest.raises(ValueError, match="Thing of @kopf.crd is not a model"):
        @schemas.crd("g.dev", "v1", "things")
        class Thing:
            pass

    @schemas.crd("g.dev", "v1", "others")
    class Other:
        x: int

    with pytest.raises(ValueError, match="Other of @kopf.crd is not a model"):
        schemas.to_manifests(schemas.declared())


def test_yaml_has_no_anchors() -> None:
    @schemas.crd("g.dev", "v1", "things")
    @dataclasses.dataclass
    class Thing:
        a: list  # type: ignore[type-arg]
        b: list  # type: ignore[type-arg]

    assert "&id" not in schemas.to_yaml(schemas.declared())


@dataclasses.dataclass
class DocumentedPort:
    """A port
    of the gateway."""

    number: int


@dataclasses.dataclass
class PlainPort:
    number: int


@dataclasses.dataclass
class DocumentedSpec:
    """A gateway."""

    port: DocumentedPort
    plain: PlainPort
    other: DocumentedPort = dataclasses.field(
        default_factory=lambda: DocumentedPort(1), metadata={"description": "Another one."})


def test_docstrings_are_descriptions() -> None:
    schemas.crd("kopf.dev", "v1", "documented")(DocumentedSpec)
    declared = [one for one in schemas.declared() if one.plural == "documented"]
    try:
        [manifest] = schemas.to_manifests(declared)
    finally:
        for one in declared:
            del schemas._declared[one.group, one.plural, one.version]
    schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["description"] == "A gateway."
    fields = schema["properties"]["spec"]["properties"]
    assert fields["port"]["description"] == "A port\nof the gateway."
    assert fields["other"]["description"] == "Another one."
    assert "description" not in fields["plain"]
