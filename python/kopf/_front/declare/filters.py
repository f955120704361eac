"""Criteria of labels, annotations and field values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from kopf._front.declare.callbacks import MetaFilterFn


class MetaFilterToken(enum.Enum):
    """Criteria of the presence of a value."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


PRESENT = MetaFilterToken.PRESENT
"""Matches any value, even an empty one: the label, annotation or field must exist.

::

    @kopf.on.create("kopfexamples", labels={"app": kopf.PRESENT})
    def create_fn(**_): ...
"""

ABSENT = MetaFilterToken.ABSENT
"""Matches only if the label, annotation or field does not exist.

::

    @kopf.on.create("kopfexamples", annotations={"example.com/ignore": kopf.ABSENT})
    def create_fn(**_): ...
"""

MetaFilter = Mapping[str, Union[str, MetaFilterToken, "MetaFilterFn"]]
"""Criteria of labels or annotations: key → a literal, ``PRESENT``, ``ABSENT``, or a function."""

ValueFilter = Union[None, Any, MetaFilterToken, "MetaFilterFn"]
"""A criterion of a field: a literal, ``PRESENT``, ``ABSENT``, or a function."""
