"""In-memory containers: memos and indices."""

from __future__ import annotations

import collections.abc
from collections.abc import (
    Collection, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView,
)
from typing import Any, Generic, NewType, Protocol, TypeVar

from kopf._front.objects.bodies import Body
from kopf._front.objects.ids import HandlerId

_K = TypeVar("_K")
_V = TypeVar("_V")

AnyMemo = NewType("AnyMemo", object)
"""A memo of any type. The framework only copies it."""

ObjectKey = tuple[str | None, str | None, str | None]
"""Identifies an object in indices: its namespace, name and uid."""


class Memo(dict[Any, Any]):
    """A container for your own values: a dictionary whose keys are also attributes.

    Each object has one, from its first handler until it is deleted or the operator exits, as the argument
    ``memo``. In startup and cleanup handlers, it is that of the operator, of which all others are copies::

        @kopf.on.event("kopfexamples")
        def count(memo: kopf.Memo, **_):
            memo.count = memo.get("count", 0) + 1
    """

    __slots__ = ()

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __delattr__(self, key: str) -> None:
        try:
            del self[key]
        except KeyError:
            raise AttributeError(key) from None

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (), None, None, iter(self.items())


class Store(Collection[_V], Generic[_V]):
    """The values of one key of an index: a collection with ``len()``, ``in`` and iteration, in no particular
    order. See :class:`kopf.Index`.
    """


class Index(Mapping[_K, Store[_V]], Generic[_K, _V]):
    """An index: a read-only mapping of the keys that an index handler returned to their values.

    Handlers get it as an argument with the name of the index handler. The values of a key are a
    :class:`kopf.Store`, with at most one value for each object::

        @kopf.index("pods")
        def names_by_app(labels, name, **_):
            return {labels.get("app"): name}

        @kopf.timer("kopfexamples", interval=60)
        def show(names_by_app: kopf.Index[str, str], **_):
            print(sorted(names_by_app.get("web", [])))
    """


Indices = Mapping[str, Index[Any, Any]]
"""Indices by their names, which are the ids of index handlers."""


class IndexStore(Store[_V], Generic[_V]):
    """Values by the objects that contributed them: at most one per object."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[ObjectKey, _V] = {}

    def __repr__(self) -> str:
        return repr(list(self._items.values()))

    def __bool__(self) -> bool:
        return bool(self._items)

    def __len__(self) -> int:
        return len(self._items)

    # A copy, because the store can change during the iteration of a thread or coroutine.
    def __iter__(self) -> Iterator[_V]:
        return iter(list(self._items.values()))

    def __contains__(self, obj: object) -> bool:
        return any(item == obj for item in list(self._items.values()))

    def _discard(self, acckey: ObjectKey) -> None:
        self._items.pop(acckey, None)

    def _replace(self, acckey: ObjectKey, obj: _V) -> None:
        self._items[acckey] = obj


class LiveIndex(Index[_K, _V], Generic[_K, _V]):
    """An index with its reverse map from objects to keys, so that updates take O(keys)."""

    __slots__ = ("_items", "_reverse")

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[_K, IndexStore[_V]] = {}
        self._reverse: dict[ObjectKey, set[_K]] = {}

    def __repr__(self) -> str:
        return repr(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[_K]:
        return iter(list(self._items))

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __getitem__(self, item: _K) -> IndexStore[_V]:
        return self._items[item]

    # Copies, because the index can change during the iteration of a thread.
    def keys(self) -> KeysView[_K]:
        return dict(self._items).keys()

    def values(self) -> ValuesView[Store[_V]]:
        values: ValuesView[Any] = dict(self._items).values()
        return values

    def items(self) -> ItemsView[_K, Store[_V]]:
        items: ItemsView[_K, Any] = dict(self._items).items()
        return items

    def _discard(self, acckey: ObjectKey, obj_keys: Iterable[_K] | None = None) -> None:
        """Removes the object's values from the given keys, or from all keys."""
        known = self._reverse.get(acckey, set())
        for key in list(known if obj_keys is None else obj_keys):
            known.discard(key)
            store = self._items.get(key)
            if store is not None:
                store._discard(acckey)
                if not store:
                    del self._items[key]
        if not known:
            self._reverse.pop(acckey, None)

    def _replace(self, acckey: ObjectKey, obj: Mapping[_K, _V]) -> None:
        """Sets the object's values, and removes its values from all other keys."""
        stale = self._reverse.get(acckey, set()) - set(obj)
        self._discard(acckey, stale)
        for key, value in obj.items():
            self._items.setdefault(key, IndexStore())._replace(acckey, value)
        if obj:
            self._reverse[acckey] = set(obj)


class OperatorIndexer:
    """The writable side of one index."""

    def __init__(self) -> None:
        super().__init__()
        self.index: LiveIndex[Any, Any] = LiveIndex()

    def __repr__(self) -> str:
        return repr(self.index)

    def discard(self, key: ObjectKey) -> None:
        """Removes all values of the object."""
        self.index._discard(key)

    def replace(self, key: ObjectKey, obj: object) -> None:
        """Replaces the values of the object with a result of the index handler.

        A mapping has values by keys. Any other value is stored under the key ``None``.
        """
        values = obj if isinstance(obj, collections.abc.Mapping) else {None: obj}
        self.index._replace(key, values)


class _HasId(Protocol):
    @property
    def id(self) -> HandlerId: ...


class OperatorIndexers(dict[HandlerId, OperatorIndexer]):
    """All indices of an operator by their names. ``indices`` is the read-only view for users."""

    def __init__(self) -> None:
        super().__init__()
        self.indices = OperatorIndices(self)

    def ensure(self, __handlers: Iterable[_HasId]) -> None:
        """Creates the absent indices of the handlers."""
        for handler in __handlers:
            if handler.id not in self:
                self[handler.id] = OperatorIndexer()

    def discard(self, body: Body) -> None:
        """Removes the object from all indices."""
        key = self.make_key(body)
        for indexer in self.values():
            indexer.discard(key)

    def make_key(self, body: Body) -> ObjectKey:
        """Returns the key of the object."""
        meta = body.get("metadata") or {}
        return meta.get("namespace"), meta.get("name"), meta.get("uid")


class OperatorIndices(Indices):
    """A read-only live mapping of index names to indices."""

    __slots__ = ("_indexers",)

    def __init__(self, indexers: OperatorIndexers) -> None:
        super().__init__()
        self._indexers = indexers

    def __repr__(self) -> str:
        return repr(dict(self))

    def __len__(self) -> int:
        return len(self._indexers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._indexers)

    def __getitem__(self, id: str) -> Index[Any, Any]:
        return self._indexers[HandlerId(id)].index

    def __contains__(self, id: object) -> bool:
        return id in self._indexers
