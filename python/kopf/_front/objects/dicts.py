"""Nested dictionaries: field paths, lookups, changes, and the views of parts of dictionaries."""

from __future__ import annotations

import collections.abc
import enum
from collections.abc import (
    Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView,
)
from typing import Any, Generic, TypeVar, cast, overload

FieldPath = tuple[str, ...]
"""A path of a field as a tuple of names: ``("spec", "size")``. Items of diffs have it."""

FieldSpec = str | FieldPath | list[str] | None
"""A field in an option: ``"spec.size"``, or a list or tuple of names, ``["spec", "size"]``.

The second form is for names with dots, such as those of labels::

    @kopf.on.field("kopfexamples", field=("metadata", "labels", "example.com/team"))
    def move(old, new, **_):
        print(f"from {old} to {new}")
"""

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")

Source = Mapping[Any, Any] | Callable[[], Mapping[Any, Any]]
"""A dictionary, or a function that returns the newest one."""


class _UNSET(enum.Enum):
    token = enum.auto()


def parse_field(field: FieldSpec) -> FieldPath:
    """Returns the path of a field spec. Strings are split at every dot; there is no escaping."""
    if field is None:
        return ()
    if isinstance(field, str):
        return tuple(field.split("."))
    if isinstance(field, (list, tuple)):
        return tuple(field)
    raise ValueError(f"Field must be either a str, or a list/tuple, such as 'spec.field'. Got {field!r}")


def resolve(
    d: Mapping[Any, Any] | None,
    field: FieldSpec,
    default: _T | _UNSET = _UNSET.token,
) -> Any | _T:
    """Returns the value of a nested field, or the default if any step is absent.

    Without a default, raises :class:`KeyError` for absent keys, and :class:`TypeError` for steps
    into values that are not dictionaries.
    """
    path = field if type(field) is tuple else parse_field(field)
    value: Any = d
    for key in path:
        if type(value) is dict or isinstance(value, collections.abc.Mapping):
            try:
                value = value[key]
            except KeyError:
                if default is _UNSET.token:
                    raise
                return default
        elif default is _UNSET.token:
            raise TypeError(f"cannot get {key!r} of {'.'.join(map(str, path))!r}: "
                            f"expected a dict, got {value!r}")
        else:
            return default
    return value


def resolve_obj(
    d: object,
    field: FieldSpec,
    default: _T | _UNSET = _UNSET.token,
) -> Any | _T:
    """Returns the value of a nested field of a dictionary or of any object with attributes.

    The models of the Kubernetes client map the names of the API to their attributes, e.g.
    ``ownerReferences`` to ``owner_references``.
    """
    value: Any = d
    for key in parse_field(field):
        try:
            if isinstance(value, collections.abc.Mapping):
                value = value[key]
            elif hasattr(type(value), "attribute_map"):
                names = {api: own for own, api in type(value).attribute_map.items()}
                value = getattr(value, names.get(key, key))
            elif isinstance(value, collections.abc.Iterable):
                raise TypeError(f"cannot get {key!r}: expected a dict or a model, got {value!r}")
            else:
                value = getattr(value, key)
        except (KeyError, AttributeError, TypeError):
            if default is _UNSET.token:
                raise
            return default
    return value


def ensure(d: MutableMapping[Any, Any], field: FieldSpec, value: Any) -> None:
    """Sets a nested field, and creates the absent parents."""
    path = parse_field(field)
    if not path:
        raise ValueError("Setting a root of a dict is impossible. Provide the specific fields, such as 'spec.field'.")
    parent: Any = d
    for key in path[:-1]:
        if key not in parent:
            parent[key] = {}
        parent = parent[key]
    parent[path[-1]] = value


def remove(d: MutableMapping[Any, Any], field: FieldSpec) -> None:
    """Removes a nested field if it is present, and the parents that have become empty."""
    path = parse_field(field)
    if not path:
        raise ValueError("Removing a root of a dict is impossible. Provide a specific field, such as 'spec.field'.")
    parents: list[Any] = [d]
    for key in path[:-1]:
        if not isinstance(parents[-1], collections.abc.Mapping):
            raise TypeError(f"cannot remove {'.'.join(map(str, path))!r}: "
                            f"expected a dict, got {parents[-1]!r}")
        if key not in parents[-1]:
            break
        parents.append(parents[-1][key])
    else:
        try:
            del parents[-1][path[-1]]
        except KeyError:
            pass
    for parent, key, child in reversed(list(zip(parents, path, parents[1:]))):
        if child != {}:
            break
        del parent[key]


def cherrypick(
    src: Mapping[Any, Any],
    dst: MutableMapping[Any, Any],
    fields: Iterable[FieldSpec] | None,
    picker: Callable[[_T], _T] | None = None,
) -> None:
    """Copies the listed fields, if present, to the same paths of another dictionary."""
    for field in fields or ():
        try:
            value = resolve(src, field)
        except KeyError:
            continue
        ensure(dst, field, picker(value) if picker is not None else value)


def walk(
    objs: _T | Iterable[_T] | Iterable[_T | Iterable[_T]],
    *,
    nested: Iterable[FieldSpec] | None = None,
) -> Iterator[_T]:
    """Yields the objects of arbitrarily nested iterables, and their nested parts if requested."""
    if objs is None:
        return
    if isinstance(objs, collections.abc.Mapping):
        yield cast(_T, objs)
        for subfield in nested if nested is not None else ():
            try:
                yield resolve(objs, parse_field(subfield))
            except KeyError:
                pass
    elif isinstance(objs, (str, bytes)):
        raise TypeError(f"expected an object or an iterable of objects, got {objs!r}")
    elif isinstance(objs, collections.abc.Iterable) and not hasattr(type(objs), "attribute_map"):
        for obj in objs:
            yield from walk(obj, nested=nested)
    else:
        yield cast(_T, objs)
        is_model = hasattr(type(objs), "attribute_map")
        for subfield in nested if nested is not None and is_model else ():
            part = resolve_obj(objs, parse_field(subfield), None)
            if part is not None:
                yield part


class MappingView(Mapping[_K, _V], Generic[_K, _V]):
    """A read-only view of a part of a dictionary, resolved at each access.

    An absent or null part is treated as empty.
    """

    # Other attributes are possible: users attach them, or assign them by mistake without effect.
    __slots__ = ("_src", "_path", "__dict__", "__weakref__")
    _src: Source
    _path: FieldPath

    def __init__(self, __src: Source, __path: FieldSpec = None) -> None:
        self._src = __src
        self._path = __path if type(__path) is tuple else parse_field(__path)

    def _whole(self) -> Mapping[Any, Any]:
        src = self._src
        if type(src) is dict:
            return src
        if isinstance(src, MappingView):
            return src._part()
        if isinstance(src, collections.abc.Mapping):
            return src
        return src() if callable(src) else src

    def _part(self) -> Mapping[Any, Any]:
        part: Any = self._whole()
        for key in self._path:
            # Checks of abstract classes are slow, and the parts are almost always dictionaries.
            if type(part) is not dict and not isinstance(part, collections.abc.Mapping):
                break
            part = part.get(key)
            if part is None:
                return {}
        if type(part) is not dict and not isinstance(part, collections.abc.Mapping):
            raise TypeError(f"expected a dict in {'.'.join(self._path) or 'the body'!r}, "
                            f"got {part!r}")
        return part

    def __repr__(self) -> str:
        return repr(dict(self))

    def __len__(self) -> int:
        return len(self._part())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._part())

    def __getitem__(self, item: _K) -> _V:
        value: _V = self._part()[item]
        return value

    def __contains__(self, item: object) -> bool:
        return item in self._part()

    @overload
    def get(self, key: _K, /) -> _V | None: ...

    @overload
    def get(self, key: _K, /, default: _V | _T) -> _V | _T: ...

    def get(self, key: _K, /, default: Any = None) -> Any:
        """Returns the value of the key, or the default."""
        return self._part().get(key, default)

    def keys(self) -> KeysView[_K]:
        return self._part().keys()

    def values(self) -> ValuesView[_V]:
        return self._part().values()

    def items(self) -> ItemsView[_K, _V]:
        return self._part().items()

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled or copied view does not follow the object.
        if type(self) is MappingView:
            return MappingView, (self._snapshot(), self._path)
        return type(self), (self._snapshot(),)

    def _snapshot(self) -> Mapping[Any, Any]:
        src = self._whole()
        return src if isinstance(src, (dict, MappingView)) else dict(src)


class MutableMappingView(MappingView[_K, _V], MutableMapping[_K, _V], Generic[_K, _V]):
    """A view that changes its dictionary. Only assignments create absent parents."""

    __slots__ = ()
    _src: MutableMapping[Any, Any]

    def __delitem__(self, item: _K) -> None:
        del resolve(self._src, self._path)[item]

    def __setitem__(self, item: _K, value: _V) -> None:
        ensure(self._src, (*self._path, item), value)  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        if type(self) is MutableMappingView:
            return MutableMappingView, (self._src, self._path)
        return type(self), (self._src,)


class ReplaceableMappingView(MappingView[_K, _V], Generic[_K, _V]):
    """A view whose dictionary can be replaced as a whole, e.g. by a newer version of an object."""

    __slots__ = ()

    def _replace_from(self, __src: MappingView[_K, _V]) -> None:
        """Takes the dictionary of another view."""
        self._src = __src._src
        self._path = __src._path

    def _replace_with(self, __src: Mapping[_K, _V]) -> None:
        """Takes another dictionary."""
        self._src = __src
        self._path = ()
