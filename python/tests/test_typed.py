"""Typed arguments of handlers."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import pydantic
import pytest
from kopf._front.objects.errors import PermanentError

from kopf._front.declare import typed

if TYPE_CHECKING:
    pass  # type: ignore[import-not-found]


class Port(pydantic.BaseModel):
    number: int


class Spec(pydantic.BaseModel):
    replicas: int = 1
    ports: list[Port] = []


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Volume:
    size: int
    mode: Literal["ro", "rw"] = "ro"


@dataclasses.dataclass
class PlainSpec:
    name: str
    volumes: list[Volume] = dataclasses.field(default_factory=list)
    labels: dict[str, int] = dataclasses.field(default_factory=dict)
    color: Color | None = None
    ratio: float = 0.5
    since: datetime.datetime | None = None
    max_size: int | None = dataclasses.field(default=None, metadata={"alias": "maxSize"})
    anything: Any = None


class Dict(TypedDict):
    replicas: int


class View(Mapping[str, Any]):
    """A view like those of the framework: a mapping that is not a dict."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __iter__(self) -> Any:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


def call(fn: Any, **kwargs: Any) -> dict[str, Any]:
    plan = typed.plan(fn)
    assert plan is not None
    return typed.apply(plan, kwargs)


def test_models_are_filled() -> None:
    def fn(spec: Spec, name: str, **_: Any) -> None: ...

    data = {"replicas": 3, "ports": [{"number": 80}], "other": 1}
    kwargs = call(fn, spec=View(data), name="x", status=View({}))
    assert kwargs["spec"] == Spec(replicas=3, ports=[Port(number=80)])
    assert kwargs["name"] == "x"
    assert isinstance(kwargs["status"], View)


def test_dataclasses_are_filled() -> None:
    def fn(spec: PlainSpec, **_: Any) -> None: ...

    data = {
        "name": "x",
        "volumes": [{"size": 1, "mode": "rw", "other": 2}],
        "labels": {"a": 1},
        "color": "red",
        "ratio": 1,
        "since": "2020-01-01T00:00:00+00:00",
        "maxSize": 5,
        "anything": {"x": []},
    }
    assert call(fn, spec=View(data))["spec"] == PlainSpec(
        name="x",
        volumes=[Volume(1, "rw")],
        labels={"a": 1},
        color=Color.RED,
        ratio=1.0,
        since=datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
        max_size=5,
        anything={"x": []},
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"replicas": "x"}, "invalid spec.replicas: Input should be a valid integer"),
        ({"ports": [{"number": 1}, {}]}, "invalid spec.ports.1.number: Field required"),
        ({"replicas": "x", "ports": 1}, "invalid spec.replicas: .* \\(and 1 more\\)"),
    ],
)
def test_invalid_fields_of_models_are_permanent_errors(data: Any, message: str) -> None:
    def fn(spec: Spec, **_: Any) -> None: ...

    with pytest.raises(PermanentError, match=f"^{message}"):
        call(fn, spec=View(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "invalid spec.name: the field is required"),
        ({"name": 1}, r"invalid spec.name: must be a string, not an integer \(1\)"),
        ({"name": "x", "volumes": {}}, "invalid spec.volumes: must be a list, not an object"),
        ({"name": "x", "volumes": [{"size": True}]}, "invalid spec.volumes.0.size: must be an int"),
        ({"name": "x", "volumes": [{"size": 1, "mode": "x"}]}, "invalid spec.volumes.0.mode: "),
        ({"name": "x", "volumes": [1]}, "invalid spec.volumes.0: must be an object"),
        ({"name": "x", "labels": {"a": "b"}}, "invalid spec.labels.a: must be an integer"),
        ({"name": "x", "color": "blue"}, "invalid spec.color: must be one of 'red', not 'blue'"),
        ({"name": "x", "since": "soon"}, "invalid spec.since: "),
        ({"name": "x", "maxSize": "5"}, "invalid spec.maxSize: must be an integer"),
    ],
)  # fmt: skip
def test_invalid_fields_of_dataclasses_are_permanent_errors(data: Any, message: str) -> None:
    def fn(spec: PlainSpec, **_: Any) -> None: ...

    with pytest.raises(PermanentError, match=f"^{message}"):
        call(fn, spec=View(data))


def test_missing_states_are_none() -> None:
    def fn(old: Spec, new: Spec | None, **_: Any) -> None: ...

    assert call(fn, old=None, new={"replicas": 2}) == {"old": None, "new": Spec(replicas=2)}


@pytest.mark.parametrize(
    "annotation",
    [Dict, Mapping[str, Any], dict, dict[str, Any], Any, View, int, "Unknown", str | Spec],
)
def test_other_annotations_are_ignored(annotation: Any) -> None:
    def fn(spec: Any, **_: Any) -> None: ...

    fn.__annotations__["spec"] = annotation
    assert typed.plan(fn) is None


def test_functions_without_annotations_are_not_converted() -> None:
    assert typed.plan(lambda spec, **_: None) is None
    assert typed.plan(print) is None
    assert typed.plan(functools.partial(print)) is None
    assert typed.plan(dict) is None


class Handlers:
    def method(self, spec: Spec, **_: Any) -> None: ...

    async def __call__(self, spec: Spec, **_: Any) -> None: ...

    @classmethod
    def of_class(cls, spec: Spec, **_: Any) -> None: ...


def decorated(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def plain(spec: Spec, **_: Any) -> None: ...


def optional(spec: Annotated[Spec | None, "note"], **_: Any) -> None: ...


@pytest.mark.parametrize(
    "fn",
    [
        plain,
        optional,
        Handlers().method,
        Handlers(),
        Handlers.of_class,
        functools.partial(plain, x=1),
        functools.partial(Handlers().method, x=1),
        decorated(plain),
        decorated(Handlers().method),
    ],
)
def test_all_kinds_of_callables_have_plans(fn: Any) -> None:
    assert call(fn, spec={})["spec"] == Spec()


def test_pydantic_dataclasses_are_filled() -> None:
    @pydantic.dataclasses.dataclass
    class Item:
        x: int

    def fn(spec: Any, **_: Any) -> None: ...

    fn.__annotations__["spec"] = Item
    assert call(fn, spec=View({"x": "1"}))["spec"].x == 1
    with pytest.raises(PermanentError, match="^invalid spec.x: "):
        call(fn, spec=View({}))


def test_pydantic_is_not_imported_for_dataclasses() -> None:
    code = """if True:
        import dataclasses, sys
        from kopf._front.declare import typed
        @dataclasses.dataclass
        class A:
            x: int
        def fn(spec: A, **_): ...
        assert typed.apply(typed.plan(fn), {"spec": {"x": 1}}) == {"spec": A(1)}
        sys.exit("pydantic" in sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True)
