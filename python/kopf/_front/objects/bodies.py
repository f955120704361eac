"""Bodies of objects: the raw types, and the read-only views that handlers receive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from kopf._front.objects import dicts
from kopf._front.objects.dicts import MappingView, ReplaceableMappingView, Source

if TYPE_CHECKING:
    from kopf._front.objects.references import NamespaceName

Labels = Mapping[str, str]
"""The labels of an object: a read-only mapping of strings, empty if there are none.

::

    @kopf.on.create("kopfexamples")
    def create_fn(labels: kopf.Labels, **_):
        print(labels.get("app", "none"))
"""
Annotations = Mapping[str, str]
"""The annotations of an object: a read-only mapping of strings, empty if there are none.

::

    @kopf.on.create("kopfexamples")
    def create_fn(annotations: kopf.Annotations, **_):
        print(annotations.get("example.com/owner", "none"))
"""

RawEventType = Literal[None, "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
"""Types of watch events: ``"ADDED"``, ``"MODIFIED"``, ``"DELETED"``, or ``None``.

``None`` is for objects of the first list: they exist, and nothing has happened to them. Handlers of
raw events get it as ``type``.
"""

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
    """An object as the API sends it: a dict with ``apiVersion``, ``kind``, ``metadata``, ``spec``,
    ``status``. A type for annotations; other fields can be present.

    Functions in ``patch.fns`` get it, and change it in place::

        def add_item(body: kopf.RawBody) -> None:
            body["spec"].setdefault("items", []).append("new")

        @kopf.on.create("kopfexamples")
        def create_fn(patch, **_):
            patch.fns.append(add_item)
    """

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
    """A watch event as the API sends it: a dict with ``type`` and ``object``.

    The argument ``event`` of handlers of raw events::

        @kopf.on.event("pods")
        def seen(event: kopf.RawEvent, **_):
            print(event["type"], event["object"]["metadata"]["name"])
    """

    type: RawEventType
    object: RawBody


class MetaEssence(TypedDict, total=False):
    """The tracked part of ``metadata``."""

    labels: dict[str, str]
    annotations: dict[str, str]


class BodyEssence(TypedDict, total=False):
    """The part of an object whose changes call handlers, as a dict: labels, annotations, ``spec``, and
    fields of the status that handlers name with ``field``. Storages of the last-handled configuration
    read and write it. System fields and the annotations of operators are not in it.
    """

    metadata: MetaEssence
    spec: dict[str, Any]
    status: dict[str, Any]


class OwnerReference(TypedDict, total=False):
    """An item of ``metadata.ownerReferences``, as a dict: ``apiVersion``, ``kind``, ``name`` and ``uid`` of
    the owner, ``controller`` and ``blockOwnerDeletion``. See :func:`kopf.build_owner_reference`.
    """

    controller: bool
    blockOwnerDeletion: bool
    apiVersion: str
    kind: str
    name: str
    uid: str


class ObjectReference(TypedDict, total=False):
    """A reference to an object, as a dict: ``apiVersion``, ``kind``, ``name``, ``uid`` and, for namespaced
    objects, ``namespace``. Kubernetes events contain it. See :func:`kopf.build_object_reference`.
    """

    apiVersion: str
    kind: str
    namespace: str | None
    name: str
    uid: str


class Meta(MappingView[str, Any]):
    """The ``metadata`` of an object: a read-only mapping with shortcuts as attributes.

    ::

        @kopf.on.create("kopfexamples")
        def create_fn(meta: kopf.Meta, **_):
            print(meta.namespace, meta.name, meta.labels.get("app"), meta["generation"])
    """

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
        """The uid, which no other object ever has."""
        return cast(str, self.get("uid"))

    @property
    def name(self) -> str:
        """The name."""
        return cast(str, self.get("name"))

    @property
    def namespace(self) -> NamespaceName | None:
        """The namespace; ``None`` for cluster-scoped objects."""
        return cast("NamespaceName | None", self.get("namespace"))

    @property
    def creation_timestamp(self) -> str | None:
        """When the object was created, as text: ``2026-11-17T08:28:58Z``."""
        return cast("str | None", self.get("creationTimestamp"))

    @property
    def deletion_timestamp(self) -> str | None:
        """When the deletion was requested; ``None`` before that."""
        return cast("str | None", self.get("deletionTimestamp"))


class Spec(MappingView[str, Any]):
    """The ``spec`` of an object: a read-only mapping, empty if the object has none.

    In daemons and timers, it always shows the newest version, so keep values instead of the view::

        @kopf.daemon("kopfexamples")
        async def monitor(spec: kopf.Spec, stopped, **_):
            while not await stopped.wait(10):
                print(spec.get("duration"))  # changes when the object changes
    """

    __slots__ = ()

    def __init__(self, __src: Source) -> None:
        self._src = __src
        self._path = ("spec",)


class Status(MappingView[str, Any]):
    """The ``status`` of an object: a read-only mapping, empty if the object has none.

    To change it, use ``patch.status``, or return a result::

        @kopf.timer("kopfexamples", interval=60)
        def count(status: kopf.Status, patch, **_):
            patch.status["count"] = status.get("count", 0) + 1
    """

    __slots__ = ()

    def __init__(self, __src: Source) -> None:
        self._src = __src
        self._path = ("status",)


class Body(ReplaceableMappingView[str, Any]):
    """A whole object: a read-only mapping, with its parts as attributes.

    In daemons and timers, it always shows the newest version. Nested values are ordinary dicts and
    lists; do not change them, as nothing would be sent: use ``patch``.

    ::

        @kopf.on.create("kopfexamples")
        def create_fn(body: kopf.Body, **_):
            print(body["apiVersion"], body.meta.name, body.spec.get("duration"))
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
        """The ``metadata``; the same as ``meta``."""
        return self.meta

    @property
    def meta(self) -> Meta:
        """The ``metadata``."""
        view = self._meta
        if view is None:
            view = self._meta = Meta(self)
        return view

    @property
    def spec(self) -> Spec:
        """The ``spec``; empty if absent."""
        view = self._spec
        if view is None:
            view = self._spec = Spec(self)
        return view

    @property
    def status(self) -> Status:
        """The ``status``; empty if absent."""
        view = self._status
        if view is None:
            view = self._status = Status(self)
        return view


def build_object_reference(body: Body) -> ObjectReference:
    """Returns a reference to the object, without empty fields. Events and your own objects can contain it.

    Arguments:

    - ``body``: the object, usually the argument ``body`` of a handler.

    ::

        body = kopf.Body({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "1"}})
        assert kopf.build_object_reference(body) == {
            "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "1",
        }
    """
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
    """Returns an owner reference to the object, for ``metadata.ownerReferences`` of a child.

    Most handlers need :func:`kopf.adopt` or :func:`kopf.append_owner_reference` instead, which add it.

    Arguments:

    - ``body``: the owner.
    - ``controller``: marks the owner as the controller, of which there is at most one; ``True`` by
      default. ``None`` leaves the field out.
    - ``block_owner_deletion``: a deletion of the owner in the foreground waits for the child; ``True``
      by default. ``None`` leaves the field out.

    ::

        body = kopf.Body({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "1"}})
        assert kopf.build_owner_reference(body, controller=None)["uid"] == "1"
    """
    ref = {
        "controller": controller,
        "blockOwnerDeletion": block_owner_deletion,
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "name": dicts.resolve(body, ("metadata", "name"), None),
        "uid": dicts.resolve(body, ("metadata", "uid"), None),
    }
    return cast(OwnerReference, {key: value for key, value in ref.items() if value is not None})
