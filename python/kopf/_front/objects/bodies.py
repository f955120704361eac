"""Bodies of objects: the raw types, and the read-only views that handlers receive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from kopf._front.objects import dicts
from kopf._front.objects.dicts import MappingView, ReplaceableMappingView, Source

if TYPE_CHECKING:
    from kopf._front.objects.references import NamespaceName

Labels = Mapping[str, str]
Annotations = Mapping[str, str]

RawEventType = Literal[None, "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
"""Types of watch events. ``None`` is for objects of the initial listing."""

RawInputType = Literal[None, "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class RawMeta(TypedDict, total=False):
    """The most used fields of ``metadata``. Others can be present."""

    uid: str
    name: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: list[str]
    resourceVersion: str
    deletionTimestamp: str
    creationTimestamp: str
    selfLink: str


class RawBody(TypedDict, total=False):
    """A body as the API sends it. Other fields can be present."""

    apiVersion: str
    kind: str
    metadata: RawMeta
    spec: dict[str, Any]
    status: dict[str, Any]


class RawError(TypedDict, total=False):
    """The object of a watch event of type ``ERROR``."""

    apiVersion: str
    kind: str
    metadata: dict[Any, Any]
    code: int
    reason: str
    status: str
    message: str


class RawInput(TypedDict, total=True):
    """A line of a watch stream."""

    type: RawInputType
    object: RawBody | RawError


class RawEvent(TypedDict, total=True):
    """A watch event of an object."""

    type: RawEventType
    object: RawBody


class MetaEssence(TypedDict, total=False):
    """The tracked part of ``metadata``."""

    labels: dict[str, str]
    annotations: dict[str, str]


class BodyEssence(TypedDict, total=False):
    """The tracked part of a body: the fields whose changes trigger handlers."""

    metadata: MetaEssence
    spec: dict[str, Any]
    status: dict[str, Any]


class OwnerReference(TypedDict, total=False):
    """An item of ``metadata.ownerReferences``."""

    controller: bool
    blockOwnerDeletion: bool
    apiVersion: str
    kind: str
    name: str
    uid: str


class ObjectReference(TypedDict, total=False):
    """A reference to an object, e.g. from a k8s-event."""

    apiVersion: str
    kind: str
    namespace: str | None
    name: str
    uid: str


class Meta(MappingView[str, Any]):
    """The ``metadata`` of a body."""

    __slots__ = ("_labels", "_annotations")
    _labels: MappingView[str, str] | None
    _annotations: MappingView[str, str] | None

    def __init__(self, __src: Source) -> None:
        self._src = __src
        self._path = ("metadata",)
        self._labels = None
        self._annotations = None

    @property
    def labels(self) -> Labels:
        """The labels; empty if absent."""
        view = self._labels
        if view is None:
            view = self._labels = MappingView(self._src, ("metadata", "labels"))
        return view

    @property
    def annotations(self) -> Annotations:
        """The annotations; empty if absent."""
        view = self._annotations
        if view is None:
            view = self._annotations = MappingView(self._src, ("metadata", "annotations"))
        return view

    @property
    def uid(self) -> str:
        return cast(str, self.get("uid"))

    @property
    def name(self) -> str:
        return cast(str, self.get("name"))

    @property
    def namespace(self) -> NamespaceName | None:
        return cast("NamespaceName | None", self.get("namespace"))

    @property
    def creation_timestamp(self) -> str | None:
        return cast("str | None", self.get("creationTimestamp"))

    @property
    def deletion_timestamp(self) -> str | None:
        return cast("str | None", self.get("deletionTimestamp"))


class Spec(MappingView[str, Any]):
    """The ``spec`` of a body; empty if absent."""

    __slots__ = ()

    def __init__(self, __src: Source) -> None:
        self._src = __src
        self._path = ("spec",)


class Status(MappingView[str, Any]):
    """The ``status`` of a body; empty if absent."""

    __slots__ = ()

    def __init__(self, __src: Source) -> None:
        self._src = __src
        self._path = ("status",)


class Body(ReplaceableMappingView[str, Any]):
    """A read-only view of an object, with the views of its parts.

    The source is a dictionary, or a function that returns the newest version at each access, for
    daemons and timers. Nested values are the original
    dictionaries and lists of the source.
    """

    __slots__ = ("_meta", "_spec", "_status")
    _meta: Meta | None
    _spec: Spec | None
    _status: Status | None

    def __init__(self, __src: RawBody | BodyEssence | Source) -> None:
        self._src = cast(Source, __src)
        self._path = ()
        # Exceptions of unset slots would take longer than the rest of a call.
        self._meta = self._spec = self._status = None

    @property
    def metadata(self) -> Meta:
        return self.meta

    @property
    def meta(self) -> Meta:
        view = self._meta
        if view is None:
            view = self._meta = Meta(self)
        return view

    @property
    def spec(self) -> Spec:
        view = self._spec
        if view is None:
            view = self._spec = Spec(self)
        return view

    @property
    def status(self) -> Status:
        view = self._status
        if view is None:
            view = self._status = Status(self)
        return view


def build_object_reference(body: Body) -> ObjectReference:
    """Returns a reference to the object, without empty fields."""
    ref = {
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "name": dicts.resolve(body, ("metadata", "name"), None),
        "uid": dicts.resolve(body, ("metadata", "uid"), None),
        "namespace": dicts.resolve(body, ("metadata", "namespace"), None),
    }
    return cast(ObjectReference, {key: value for key, value in ref.items() if value})


def build_owner_reference(
    body: Body,
    *,
    controller: bool | None = True,
    block_owner_deletion: bool | None = True,
) -> OwnerReference:
    """Returns an owner reference to the object, without null fields."""
    ref = {
        "controller": controller,
        "blockOwnerDeletion": block_owner_deletion,
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "name": dicts.resolve(body, ("metadata", "name"), None),
        "uid": dicts.resolve(body, ("metadata", "uid"), None),
    }
    return cast(OwnerReference, {key: value for key, value in ref.items() if value is not None})
