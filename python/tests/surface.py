"""Description of the public surface of the installed ``kopf`` as plain JSON data."""

from __future__ import annotations

import enum
import inspect
import types
from typing import Any

import kopf

DECORATORS = (
    "startup cleanup login probe validate mutate resume create update delete field event index "
    "daemon timer subhandler register"
).split()
LIFECYCLES = ["all_at_once", "one_by_one", "randomized", "shuffled", "asap"]


def describe() -> dict[str, Any]:
    """Returns descriptions by name, for ``kopf.__all__`` and for the public submodules."""
    names = {name: getattr(kopf, name) for name in kopf.__all__}
    names |= {f"on.{name}": getattr(kopf.on, name) for name in DECORATORS}
    names |= {f"lifecycles.{name}": getattr(kopf.lifecycles, name) for name in LIFECYCLES}
    names |= {name: getattr(kopf, name) for name in ("harmonize_naming", "adjust_namespace")}
    return {name: describe_value(value) for name, value in sorted(names.items())}


def describe_settings() -> dict[str, Any]:
    """Returns the defaults of all settings by name."""
    settings = kopf.OperatorSettings()
    return {
        f"{group}.{name}": describe_default(value)
        for group in settings.__dataclass_fields__
        for name, value in vars(getattr(settings, group)).items()
    }


def describe_value(value: Any) -> dict[str, Any]:
    if isinstance(value, types.ModuleType):
        return {"type": "module"}
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return {"type": "enum", "members": {item.name: item.value for item in value}}
    if isinstance(value, type) and hasattr(value, "__required_keys__"):
        keys = sorted(value.__required_keys__ | value.__optional_keys__)
        return {"type": "typeddict", "keys": keys}
    if isinstance(value, type) and not isinstance(value, types.GenericAlias):
        return describe_class(value)
    if inspect.isroutine(value):
        return {"type": "function", "async": inspect.iscoroutinefunction(value),
                "signature": describe_signature(value)}
    if isinstance(value, enum.Enum):
        return {"type": "constant", "value": str(value)}
    return {"type": "alias"}


def describe_class(cls: type) -> dict[str, Any]:
    own = [base for base in cls.__mro__ if base.__module__.startswith("kopf")]
    foreign = [base for base in cls.__mro__ if base not in own]
    # Overridden methods of the standard library are not part of the surface.
    standard = members_of(foreign)
    members: dict[str, Any] = {}
    for base in reversed(own):
        for name, member in vars(base).items():
            slot = isinstance(member, types.MemberDescriptorType)
            if not name.startswith("_") and not slot and name not in standard:
                members[name] = describe_member(member)
    # Fields of dataclasses are listed with and without defaults.
    fields = list(getattr(cls, "__dataclass_fields__", {}))
    for name in fields:
        members.pop(name, None)
    builtin = [b.__name__ for b in foreign if b.__module__ == "builtins" and b is not object]
    return {
        "type": "class",
        "fields": [name for name in fields if not name.startswith("_")],
        "bases": [base.__name__ for base in own[1:] if base.__name__ in kopf.__all__] + builtin,
        "abstract": sorted(getattr(cls, "__abstractmethods__", ())),
        "init": describe_signature(cls) if "__init__" in members_of(own) else None,
        "members": dict(sorted(members.items())),
    }


def members_of(classes: list[type]) -> set[str]:
    return {name for cls in classes for name in vars(cls)}


def describe_member(member: Any) -> Any:
    if isinstance(member, property):
        return "property" if member.fset is None else "property, settable"
    if isinstance(member, (staticmethod, classmethod)):
        return describe_signature(member.__func__)
    if inspect.isroutine(member):
        return describe_signature(member)
    return "attribute"


def describe_signature(fn: Any) -> list[str] | None:
    """Returns parameters as strings: the kind, the name, and the default."""
    try:
        params = inspect.signature(fn).parameters.values()
    except ValueError:
        return None
    return [describe_parameter(param) for param in params]


def describe_parameter(param: inspect.Parameter) -> str:
    marks = {param.KEYWORD_ONLY: "kw ", param.POSITIONAL_ONLY: "pos ",
             param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}
    mark = marks.get(param.kind, "")
    # Double-underscored arguments are positional by convention. Their names are ignored.
    name = "__" if "__" in param.name else param.name
    if param.default is param.empty:
        return f"{mark}{name}"
    return f"{mark}{name}={describe_default(param.default)}"


def describe_default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, (frozenset, set)) and not value:
        return "()"
    text = repr(value)
    return "..." if " at 0x" in text else text
