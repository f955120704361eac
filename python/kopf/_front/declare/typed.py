"""Typed arguments of handlers: models of pydantic and dataclasses instead of mappings.

A handler whose parameter `spec`, `status`, `body`, `old` or `new` is annotated with a model gets an
instance of it. All other annotations (`kopf.Spec`, `dict`, TypedDict, `Any`) have no effect. In
daemons and timers, which otherwise get live views, the instance is a snapshot at the call.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from kopf._front.objects.errors import PermanentError

__all__ = ["Plan", "apply", "plan"]

#: The arguments that can be models.
NAMES = ("spec", "status", "body", "old", "new")

_MISSING = object()


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The conversions of one function, by the names of arguments."""

    conversions: tuple[tuple[str, Callable[[Any], Any]], ...]


def plan(fn: Callable[..., Any]) -> Plan | None:
    """Returns the conversions that the annotations of a function require, `None` if there are none.

    Annotations in quotes are evaluated in the scope of the function; those that cannot be
    evaluated, such as names imported only for type checkers, have no effect.
    """
    target = _target(fn)
    annotations = getattr(target, "__annotations__", None) or {}
    found: list[tuple[str, Callable[[Any], Any]]] = []
    for name in NAMES:
        annotation = annotations.get(name, _MISSING)
        if annotation is _MISSING:
            continue
        model = _model_of(_resolve(annotation, target))
        if model is not None:
            found.append((name, functools.partial(_convert, name, _parser_of(model))))
    return Plan(tuple(found)) if found else None


def apply(plan: Plan, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Replaces the planned arguments with models, in place.

    Raises `PermanentError` with the path of the first invalid field, because retries cannot help.
    """
    for name, convert in plan.conversions:
        if name in kwargs:
            kwargs[name] = convert(kwargs[name])
    return kwargs


def _target(fn: Any) -> Any:
    """Returns the function behind partials, methods, callable objects and decorators."""
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, types.MethodType):
            fn = fn.__func__
        elif hasattr(fn, "__wrapped__"):
            fn = inspect.unwrap(fn)
        elif not inspect.isroutine(fn) and not isinstance(fn, type):
            fn = type(fn).__call__
            if not isinstance(fn, types.FunctionType):
                return fn
        else:
            return fn


def _resolve(annotation: Any, target: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    cells = getattr(target, "__closure__", None) or ()
    names = getattr(getattr(target, "__code__", None), "co_freevars", ())
    closure = {}
    for name, cell in zip(names, cells, strict=False):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            continue
    try:
        return eval(annotation, getattr(target, "__globals__", {}), closure)
    except Exception:
        return None


def _model_of(annotation: Any) -> type | None:
    """Returns the model of an annotation, including optional and annotated ones."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _model_of(typing.get_args(annotation)[0])
    if origin is typing.Union or origin is types.UnionType:
        args = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return _model_of(args[0]) if len(args) == 1 else None
    if isinstance(annotation, type) and _is_model(annotation):
        return annotation
    return None


def _is_model(cls: type) -> bool:
    # The views of the framework are neither dataclasses nor models. If the annotation is a model of
    # pydantic, then pydantic is already imported.
    return dataclasses.is_dataclass(cls) or is_pydantic(cls)


def is_pydantic(cls: type) -> bool:
    """Returns `True` for models and dataclasses of pydantic; never imports it."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return hasattr(cls, "__pydantic_validator__") or (base is not None and issubclass(cls, base))


def _parser_of(model: type) -> Callable[[Any], Any]:
    if is_pydantic(model):
        validator: Any = getattr(model, "__pydantic_validator__", None)
        parse: Any = validator.validate_python if validator else model.parse_obj  # type: ignore[attr-defined]
        return functools.partial(_parse_by_pydantic, parse)
    from kopf._front.declare import structures

    return functools.partial(structures.build, model)


def _parse_by_pydantic(parse: Callable[[Any], Any], value: Any) -> Any:
    try:
        return parse(value)
    except ValueError as exc:  # the base class of validation errors
        errors: Any = getattr(exc, "errors", list)()
        if not errors:
            raise
        from kopf._front.declare.structures import InvalidField

        first, *more = errors
        hint = f" (and {len(more)} more)" if more else ""
        raise InvalidField(tuple(first["loc"]), f"{first['msg']}{hint}") from exc


def _convert(name: str, parse: Callable[[Any], Any], value: Any) -> Any:
    from kopf._front.declare.structures import InvalidField

    # There is no value before the creation and after the deletion.
    if value is None:
        return None
    try:
        return parse(dict(value) if isinstance(value, Mapping) else value)
    except InvalidField as exc:
        path = ".".join(map(str, (name, *exc.path)))
        raise PermanentError(f"invalid {path}: {exc.reason}") from exc
