"""Mappings with selectors of resources as keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Generic, TypeVar, cast

from kopf._front.objects.references import Marker, Resource, Selector, SelectorFn

VT = TypeVar("VT")

SelectorKey = (
    str | Marker | tuple[str, str | Marker] | tuple[str, str, str | Marker] | SelectorFn
)
"""A resource as the positional arguments of decorators express it."""


class SelectorMapping(MutableMapping[Selector, VT], Generic[VT]):
    """Values by resources.

    The keys are selectors, or the positional arguments of selectors: ``"pods"``,
    ``("kopf.dev", "kopfexamples")``, ``("kopf.dev", "v1", "kopfexamples")``, ``EVERYTHING``,
    or a function of a resource.
    """

    def __init__(self, items: Mapping[Selector, VT] | None = None) -> None:
        super().__init__()
        self._items: dict[Selector, VT] = dict(items or {})

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._items!r})"

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Selector]:
        return iter(self._items)

    def __contains__(self, key: object) -> bool:
        return _to_selector(key) in self._items

    def __getitem__(self, key: SelectorKey | Selector) -> VT:
        return self._items[_to_selector(key)]

    def __setitem__(self, key: SelectorKey | Selector, value: VT) -> None:
        self._items[_to_selector(key)] = value

    def __delitem__(self, key: SelectorKey | Selector) -> None:
        del self._items[_to_selector(key)]

    def collect(self, resource: Resource) -> list[VT]:
        """Returns the values of all selectors that match the resource."""
        return [value for selector, value in self._items.items() if selector.check(resource)]


def _to_selector(key: object) -> Selector:
    if isinstance(key, Selector):
        return key
    if isinstance(key, tuple):
        return Selector(*cast(Any, key))
    if isinstance(key, (str, Marker)) or callable(key):
        return Selector(cast(Any, key))
    raise TypeError(f"Unsupported selector type: {key!r}; use a name, a tuple of the group and the name, or "
                    f"kopf.EVERYTHING")
