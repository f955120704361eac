"""Patches: changes of objects, collected by handlers and sent by the framework."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, cast

from kopf._front.objects import dicts
from kopf._front.objects.bodies import Body, RawBody
from kopf._front.objects.conditions import Conditions
from kopf._front.objects.dicts import MutableMappingView
from kopf._front.objects.jsonpatch import compare

PatchFn = Callable[[RawBody], None]
"""A function for ``patch.fns``: it gets the raw object, and changes it in place.

It must be repeatable, as it is called again if another client has changed the object meanwhile::

    def add_finalizer(body: kopf.RawBody) -> None:
        finalizers = body["metadata"].setdefault("finalizers", [])
        if "example.com/mine" not in finalizers:
            finalizers.append("example.com/mine")

    @kopf.on.create("kopfexamples")
    def create_fn(patch: kopf.Patch, **_):
        patch.fns.append(add_finalizer)
"""

JSONPatchOp = Literal["add", "replace", "remove", "test", "move", "copy"]


class JSONPatchItem(TypedDict, total=False):
    """An operation of a JSON patch."""

    op: JSONPatchOp
    path: str
    value: Any | None


class MetaPatch(MutableMappingView[str, Any]):
    """The ``metadata`` of a patch."""

    __slots__ = ("_labels", "_annotations")
    _labels: MutableMappingView[str, str | None]
    _annotations: MutableMappingView[str, str | None]

    def __init__(self, __src: Patch) -> None:
        self._src = __src
        self._path = ("metadata",)
        self._labels = MutableMappingView(__src, ("metadata", "labels"))
        self._annotations = MutableMappingView(__src, ("metadata", "annotations"))

    @property
    def labels(self) -> MutableMappingView[str, str | None]:
        return self._labels

    @property
    def annotations(self) -> MutableMappingView[str, str | None]:
        return self._annotations


class SpecPatch(MutableMappingView[str, Any]):
    """The ``spec`` of a patch."""

    __slots__ = ()

    def __init__(self, __src: Patch) -> None:
        self._src = __src
        self._path = ("spec",)


class StatusPatch(MutableMappingView[str, Any]):
    """The ``status`` of a patch."""

    __slots__ = ()

    def __init__(self, __src: Patch) -> None:
        self._src = __src
        self._path = ("status",)


class Patch(dict[str, Any]):
    """The changes that a handler makes to its object: the argument ``patch``. Kopf sends them afterwards.

    It is a dictionary in the form of a merge patch, in which ``None`` deletes a field. ``metadata`` (or
    ``meta``), ``spec`` and ``status`` create their dictionaries when you assign to them::

        @kopf.on.create("kopfexamples")
        def create_fn(patch: kopf.Patch, **_):
            patch.status["phase"] = "Ready"
            patch.metadata.labels["handled"] = "yes"
            patch.spec["draft"] = None  # deletes the field

    Arguments, for patches that you make in tests:

    - ``src``: the fields; none by default.
    - ``body``: the object that :meth:`as_json_patch` compares with.
    - ``fns``: the first functions of ``fns``.
    """

    __slots__ = (
        "_meta", "_spec", "_status", "_conditions", "_original", "_fns", "__dict__", "__weakref__",
    )
    _meta: MetaPatch
    _spec: SpecPatch
    _status: StatusPatch
    _conditions: Conditions

    def __init__(
        self,
        src: dict[str, Any] | None = None,
        /,
        body: Body | None = None,
        fns: Iterable[PatchFn] = (),
    ) -> None:
        super().__init__(src if src is not None else {})
        self._original = body
        self._fns: list[PatchFn] = list(src._fns) if isinstance(src, Patch) else []
        self._fns.extend(fns)

    def __repr__(self) -> str:
        args = [dict.__repr__(self)] if len(self) else []
        args += [f"fns={self._fns!r}"] if self._fns else []
        return f"{self.__class__.__name__}({', '.join(args)})"

    def __bool__(self) -> bool:
        return bool(len(self) or self._fns)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), dict(self), self._original, list(self._fns))

    @property
    def fns(self) -> list[PatchFn]:
        """Functions for what a merge patch cannot express, such as changes of items of lists. They are called
        in their order, with the object after the merge patch. See :class:`kopf.PatchFn`.
        """
        return self._fns

    @property
    def metadata(self) -> MetaPatch:
        """The metadata to change; the same as ``meta``."""
        return self.meta

    @property
    def meta(self) -> MetaPatch:
        """The metadata to change, with ``labels`` and ``annotations`` as attributes."""
        try:
            return self._meta
        except AttributeError:
            self._meta = MetaPatch(self)
            return self._meta

    @property
    def spec(self) -> SpecPatch:
        """The fields of the spec to change."""
        try:
            return self._spec
        except AttributeError:
            self._spec = SpecPatch(self)
            return self._spec

    @property
    def status(self) -> StatusPatch:
        """The fields of the status to change."""
        try:
            return self._status
        except AttributeError:
            self._status = StatusPatch(self)
            return self._status

    @property
    def conditions(self) -> Conditions:
        """The conditions of the object, changed by this patch."""
        try:
            return self._conditions
        except AttributeError:
            self._conditions = Conditions(self)
            return self._conditions

    def clear(self) -> None:
        """Removes all fields and functions."""
        super().clear()
        self._fns.clear()
        if hasattr(self, "_conditions"):
            del self._conditions

    def as_json_patch(self, body: Body | RawBody | None = None) -> list[JSONPatchItem]:
        """Returns the JSON patch that makes the same changes to the body.

        Raises :class:`ValueError` if neither the argument nor the constructor provides a body.
        """
        if not self:
            return []
        original = body if body is not None else self._original
        if original is None:
            raise ValueError("Cannot build a JSON-patch without the original body as a reference: pass it, "
                             "as in `patch.as_json_patch(body)` or `kopf.Patch(body=body)`.")
        before = copy.deepcopy(dict(original))
        after = copy.deepcopy(before)
        self._apply_patch(after, (), dict(self))
        for fn in self._fns:
            fn(cast(RawBody, after))
        return cast(list[JSONPatchItem], compare(before, after))

    def _apply_patch(self, body: Any, path: dicts.FieldPath, value: object) -> None:
        if value is None:
            dicts.remove(body, path)
        elif isinstance(value, Mapping):
            for key, subvalue in value.items():
                self._apply_patch(body, (*path, key), subvalue)
        else:
            dicts.ensure(body, path, copy.deepcopy(value))


def _restore(
    cls: type[Patch], src: dict[str, Any], body: Body | None, fns: list[PatchFn],
) -> Patch:
    return cls(src, body=body, fns=fns)


def discard_unsendable(patch: dict[Any, Any], _seen: tuple[int, ...] = ()) -> None:
    """Removes the values that are not JSON from a patch."""
    from kopf._kopf import is_json

    for key, value in list(patch.items()):
        if is_json({key: value}):
            continue
        if isinstance(value, dict) and id(value) not in _seen and is_json({key: None}):
            discard_unsendable(value, (*_seen, id(value)))
        else:
            del patch[key]
