"""Differences of two values as flat sequences of added, changed and removed fields."""

from __future__ import annotations

import collections.abc
import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from kopf._front.objects import dicts


class DiffScope(enum.Flag):
    """The sides of a comparison whose keys are used."""

    RIGHT = enum.auto()
    LEFT = enum.auto()
    FULL = LEFT | RIGHT


class DiffOperation(enum.StrEnum):
    """What has happened to a field: ``"add"``, ``"change"`` or ``"remove"``. Equal to these strings.

    ::

        assert kopf.DiffOperation.ADD == "add"
    """

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class DiffItem(NamedTuple):
    """The change of one field: a tuple of the operation, the path, the old and the new value.

    ::

        @kopf.on.update("kopfexamples")
        def update_fn(diff: kopf.Diff, **_):
            for operation, path, old, new in diff:
                print(operation, ".".join(path), old, new)  # change spec.size 1 2
    """

    operation: DiffOperation
    field: dicts.FieldPath
    old: Any
    new: Any

    def __repr__(self) -> str:
        return repr(tuple(self))

    # Equal to lists, too: users compare diffs with values from JSON.
    def __eq__(self, other: object) -> bool:
        if isinstance(other, collections.abc.Sequence) and not isinstance(other, (str, bytes)):
            return tuple(self) == tuple(other)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return hash(tuple(self))

    @property
    def op(self) -> DiffOperation:
        """The same as ``operation``."""
        return self.operation


class Diff(Sequence[DiffItem]):
    """All changes since the last handling: an immutable sequence of :class:`kopf.DiffItem`.

    Lists are compared as a whole: a changed item is a change of the list. Equal to tuples and lists of
    the same items, so that tests can compare it::

        diff = kopf.Diff([("change", ("spec", "size"), 1, 2)])
        assert diff == [("change", ("spec", "size"), 1, 2)]
        assert diff[0].field == ("spec", "size")
    """

    def __init__(self, __items: Iterable[DiffItem]) -> None:
        super().__init__()
        self._items = tuple(DiffItem(*item) for item in __items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[DiffItem]:
        return iter(self._items)

    @overload
    def __getitem__(self, item: int) -> DiffItem: ...

    @overload
    def __getitem__(self, item: slice) -> Sequence[DiffItem]: ...

    def __getitem__(self, item: int | slice) -> DiffItem | Sequence[DiffItem]:
        return self._items[item]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, collections.abc.Sequence) and not isinstance(other, (str, bytes)):
            return self._items == tuple(other)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


def diff(
    a: Any,
    b: Any,
    path: dicts.FieldPath = (),
    *,
    scope: DiffScope = DiffScope.FULL,
) -> Diff:
    """Returns the differences of two values. Lists are compared as a whole."""
    return Diff(diff_iter(a, b, path=path, scope=scope))


def diff_iter(
    a: Any,
    b: Any,
    path: dicts.FieldPath = (),
    *,
    scope: DiffScope = DiffScope.FULL,
) -> Iterator[DiffItem]:
    """Yields the differences of two values: first the additions, then the removals and changes.

    A null is equivalent to an absent key. The scope limits the compared keys of dictionaries:
    ``LEFT`` ignores the keys that only ``b`` has, and ``RIGHT`` those that only ``a`` has.
    """
    if a == b:
        return
    if a is None:
        yield DiffItem(DiffOperation.ADD, path, a, b)
    elif b is None:
        yield DiffItem(DiffOperation.REMOVE, path, a, b)
    elif isinstance(a, collections.abc.Mapping) and isinstance(b, collections.abc.Mapping):
        if DiffScope.RIGHT in scope:
            for key in b:
                if key not in a:
                    yield from diff_iter(None, b[key], path=(*path, key), scope=scope)
        if DiffScope.LEFT in scope:
            for key in a:
                if key not in b:
                    yield from diff_iter(a[key], None, path=(*path, key), scope=scope)
        for key in a:
            if key in b:
                yield from diff_iter(a[key], b[key], path=(*path, key), scope=scope)
    else:
        yield DiffItem(DiffOperation.CHANGE, path, a, b)


def reduce(d: Diff, path: dicts.FieldPath) -> Diff:
    """Returns the differences inside of one field, with paths relative to that field."""
    return Diff(reduce_iter(d, path))


def reduce_iter(d: Diff, path: dicts.FieldPath) -> Iterator[DiffItem]:
    """Yields the differences inside of one field, with paths relative to that field."""
    path = tuple(path)
    for operation, fieldspec, old, new in d:
        field = tuple(fieldspec)
        if field[:len(path)] == path:
            yield DiffItem(operation, field[len(path):], old, new)
        elif path[:len(field)] == field:
            tail = path[len(field):]
            yield from diff_iter(
                dicts.resolve(old, tail, default=None),
                dicts.resolve(new, tail, default=None),
            )


EMPTY = Diff(())
