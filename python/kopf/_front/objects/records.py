"""Base classes of dataclasses with shared methods for comparison and printing.

`dataclasses` generates and compiles these methods for each class at import, which would take 25 ms
for all causes and handlers: a third of `import kopf`.
"""

from __future__ import annotations

import dataclasses
from typing import Any


def _values(obj: Any) -> tuple[Any, ...]:
    return tuple(getattr(obj, name) for name in obj.__dataclass_fields__)


class Record:
    """A mutable record, comparable by the values of its fields."""

    def __repr__(self) -> str:
        names = getattr(self, "__dataclass_fields__", ())
        text = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({text})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)


class FrozenRecord(Record):
    """A record whose fields are assigned only once."""

    def __hash__(self) -> int:
        return hash(_values(self))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
