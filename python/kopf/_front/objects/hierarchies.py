"""Hierarchies of objects: owner references, names, namespaces and labels of children.

All functions accept one object or arbitrarily nested iterables of objects. The objects are
dictionaries, or those of the packages ``pykube``, ``kubernetes``, ``kubernetes_asyncio``.
The default owner is the currently handled object.
"""

from __future__ import annotations

import collections.abc
import enum
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, cast

from kopf._front.objects import causes, dicts, thirdparty
from kopf._front.objects.bodies import Body, build_owner_reference

K8sObject = (
    MutableMapping[Any, Any]
    | thirdparty.PykubeObject
    | thirdparty.KubernetesModelSync
    | thirdparty.KubernetesModelAsync
)
K8sObjects = K8sObject | Iterable[K8sObject]


class _UNSET(enum.Enum):
    token = enum.auto()


def append_owner_reference(
    objs: K8sObjects,
    owner: Body | None = None,
    *,
    controller: bool | None = True,
    block_owner_deletion: bool | None = True,
) -> None:
    """Adds an owner reference, so that Kubernetes deletes the objects together with their owner.

    Nothing is added if there already is a reference with the same uid.

    Arguments:

    - ``objs``: a dict, an object of ``pykube``, ``kubernetes`` or ``kubernetes_asyncio``, or several of
      them in a list or another iterable. They are changed in place.
    - ``owner``: the owner; by default, the object that is being handled.
    - ``controller``: marks the owner as the controller; ``True`` by default.
    - ``block_owner_deletion``: a deletion of the owner in the foreground waits for the objects; ``True``
      by default.

    ::

        owner = kopf.Body({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "1"}})
        child = {"apiVersion": "v1", "kind": "ConfigMap"}
        kopf.append_owner_reference(child, owner=owner)
        assert child["metadata"]["ownerReferences"][0]["name"] == "web"
    """
    real_owner = _guess_owner(owner)
    ref = build_owner_reference(
        real_owner, controller=controller, block_owner_deletion=block_owner_deletion)
    for meta in _walk_metadata(objs):
        refs = meta.get_refs()
        if not any(meta.get_uid(other) == ref.get("uid") for other in refs):
            meta["ownerReferences"] = [*refs, meta.make_ref(cast(dict[str, Any], ref))]


def remove_owner_reference(
    objs: K8sObjects,
    owner: Body | None = None,
) -> None:
    """Removes the owner references to the owner: the objects then outlive it.

    Arguments:

    - ``objs``: a dict, an object of ``pykube``, ``kubernetes`` or ``kubernetes_asyncio``, or several of
      them in a list or another iterable. They are changed in place.
    - ``owner``: the owner; by default, the object that is being handled.

    ::

        owner = kopf.Body({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "1"}})
        child = {"metadata": {"ownerReferences": [{"kind": "Pod", "name": "web", "uid": "1"}]}}
        kopf.remove_owner_reference(child, owner=owner)
        assert child["metadata"]["ownerReferences"] == []
    """
    ref = build_owner_reference(_guess_owner(owner))
    for meta in _walk_metadata(objs):
        refs = meta.get_refs()
        meta["ownerReferences"] = [r for r in refs if meta.get_uid(r) != ref.get("uid")]


def label(
    objs: K8sObjects,
    labels: Mapping[str, str | None] | _UNSET = _UNSET.token,
    *,
    forced: bool = False,
    nested: str | Iterable[dicts.FieldSpec] | None = None,
    force: bool | None = None,
) -> None:
    """Sets labels of objects; by default, the labels of the owner.

    Arguments:

    - ``objs``: a dict, an object of ``pykube``, ``kubernetes`` or ``kubernetes_asyncio``, or several of
      them in a list or another iterable. They are changed in place.
    - ``labels``: the labels; by default, those of the object that is being handled.
    - ``forced``: ``True`` overwrites labels that the objects have already; ``False`` by default.
    - ``nested``: fields whose labels are set as well if the field exists: ``"spec.template"``, or a list
      of such paths. None by default.
    - ``force``: deprecated; use ``forced``.

    ::

        child = {"metadata": {"labels": {"app": "mine"}}, "spec": {"template": {}}}
        kopf.label(child, {"app": "web", "tier": "front"}, nested="spec.template")
        assert child["metadata"]["labels"] == {"app": "mine", "tier": "front"}
        assert child["spec"]["template"]["metadata"]["labels"] == {"app": "web", "tier": "front"}
    """
    if force is not None:
        warnings.warn("force= is deprecated in kopf.label(); use forced=...",
                      DeprecationWarning, stacklevel=2)
        forced = force
    if isinstance(labels, _UNSET):
        labels = _guess_owner(None).get("metadata", {}).get("labels") or {}
    for meta in _walk_metadata(objs, nested=[nested] if isinstance(nested, str) else nested):
        old = meta.get("labels") or {}
        meta["labels"] = {**old, **labels} if forced else {**labels, **old}


def harmonize_naming(
    objs: K8sObjects,
    name: str | None | _UNSET = _UNSET.token,
    *,
    forced: bool = False,
    strict: bool = False,
) -> None:
    """Names the objects that have no names after the owner.

    Arguments:

    - ``objs``: a dict, an object of ``pykube``, ``kubernetes`` or ``kubernetes_asyncio``, or several of
      them in a list or another iterable. They are changed in place.
    - ``name``: the name; by default, that of the object that is being handled.
    - ``forced``: ``True`` overwrites names that the objects have already; ``False`` by default.
    - ``strict``: ``True`` sets exactly this name; by default, the name is a prefix, to which the server
      adds random characters (``generateName``).

    ::

        child = {"kind": "ConfigMap"}
        kopf.harmonize_naming(child, name="web")
        assert child["metadata"] == {"generateName": "web-"}
    """
    if isinstance(name, _UNSET):
        name = _guess_owner(None).get("metadata", {}).get("name")
    if name is None:
        raise LookupError("Name must be set explicitly: couldn't find it automatically. Pass name=.")
    for meta in _walk_metadata(objs):
        if not forced and ("name" in meta or "generateName" in meta):
            continue
        meta.pop("generateName" if strict else "name")
        meta["name" if strict else "generateName"] = name if strict else f"{name}-"


def adjust_namespace(
    objs: K8sObjects,
    namespace: str | None | _UNSET = _UNSET.token,
    *,
    forced: bool = False,
) -> None:
    """Puts the objects that have no namespace into the namespace of the owner.

    Arguments:

    - ``objs``: a dict, an object of ``pykube``, ``kubernetes`` or ``kubernetes_asyncio``, or several of
      them in a list or another iterable. They are changed in place.
    - ``namespace``: the namespace; by default, that of the object that is being handled.
    - ``forced``: ``True`` overwrites namespaces that the objects have already; ``False`` by default.

    ::

        child = {"kind": "ConfigMap"}
        kopf.adjust_namespace(child, namespace="town")
        assert child["metadata"]["namespace"] == "town"
    """
    if isinstance(namespace, _UNSET):
        namespace = _guess_owner(None).get("metadata", {}).get("namespace")
    for meta in _walk_metadata(objs):
        if forced or meta.get("namespace") is None:
            meta["namespace"] = namespace


def adopt(
    objs: K8sObjects,
    owner: Body | None = None,
    *,
    forced: bool = False,
    strict: bool = False,
    nested: str | Iterable[dicts.FieldSpec] | None = None,
) -> None:
    """Makes the objects children of the owner: with an owner reference, so that Kubernetes deletes them
    together, and with the owner's name, namespace and labels where they have none of their own.

    The objects are only prepared: create them with your client, or use :func:`kopf.apply_child`, which
    adopts and sends them.

    Arguments:

    - ``objs``: a dict, an object of ``pykube``, ``kubernetes`` or ``kubernetes_asyncio``, or several of
      them in a list or another iterable. They are changed in place.
    - ``owner``: the owner; by default, the object that is being handled.
    - ``forced``: ``True`` overwrites names, namespaces and labels that the objects have already; ``False``
      by default.
    - ``strict``: ``True`` gives the objects the name of the owner; by default, it is a prefix, to which
      the server adds random characters.
    - ``nested``: fields whose labels are set as well if the field exists: ``"spec.template"``, or a list
      of such paths. None by default.

    ::

        @kopf.on.create("kopfexamples")
        def create_fn(spec, logger, **_):
            pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}}
            kopf.adopt(pod)
            logger.info(pod["metadata"]["generateName"])
    """
    real_owner = _guess_owner(owner)
    metadata = real_owner.get("metadata") or {}
    append_owner_reference(objs, owner=real_owner)
    harmonize_naming(objs, name=metadata.get("name"), forced=forced, strict=strict)
    adjust_namespace(objs, namespace=metadata.get("namespace"), forced=forced)
    label(objs, labels=metadata.get("labels") or {}, nested=nested, forced=forced)


def _guess_owner(owner: Body | None) -> Body:
    if owner is not None:
        return owner
    cause = causes.cause_var.get(None)
    if cause is None:
        raise LookupError("Owner must be set explicitly, since running outside of a handler: "
                          "pass owner=, or call this function in a handler.")
    if not isinstance(cause, causes.ResourceCause):
        raise LookupError("Owner must be set explicitly, since running in a handler without "
                          "an object: pass owner=.")
    return cause.body


def _walk_metadata(
    objs: K8sObjects, *, nested: Iterable[dicts.FieldSpec] | None = None,
) -> Iterator[_Metadata]:
    fields = list(nested) if nested is not None else None
    for obj in dicts.walk(_unwrap(objs), nested=fields):
        if isinstance(obj, collections.abc.MutableMapping):
            yield _DictMetadata(obj)
        elif isinstance(obj, (thirdparty.KubernetesModelSync, thirdparty.KubernetesModelAsync)):
            yield _ModelMetadata(obj)
        else:
            raise TypeError(f"K8s object class is not supported: {type(obj)}; pass a dict, or an object "
                            f"of kubernetes, kubernetes_asyncio or pykube")


def _unwrap(objs: Any) -> Any:
    """Replaces pykube objects with their dictionaries."""
    if isinstance(objs, thirdparty.PykubeObject):
        return objs.obj
    plain = isinstance(objs, (collections.abc.Mapping, str, bytes)) \
        or hasattr(type(objs), "attribute_map")
    if isinstance(objs, collections.abc.Iterable) and not plain:
        return [_unwrap(obj) for obj in objs]
    return objs


class _Metadata:
    """The metadata of an object, with the fields named as in the API."""

    def __contains__(self, name: str) -> bool:
        raise NotImplementedError

    def __setitem__(self, name: str, value: Any) -> None:
        raise NotImplementedError

    def get(self, name: str) -> Any:
        raise NotImplementedError

    def pop(self, name: str) -> None:
        raise NotImplementedError

    def make_ref(self, ref: dict[str, Any]) -> Any:
        raise NotImplementedError

    def get_refs(self) -> list[Any]:
        return list(self.get("ownerReferences") or ())

    @staticmethod
    def get_uid(ref: Any) -> str | None:
        return cast("str | None",
                    ref.get("uid") if isinstance(ref, collections.abc.Mapping) else ref.uid)


class _DictMetadata(_Metadata):
    def __init__(self, obj: MutableMapping[Any, Any]) -> None:
        super().__init__()
        if obj.get("metadata") is None:
            obj["metadata"] = {}
        self._meta: MutableMapping[Any, Any] = obj["metadata"]

    def __contains__(self, name: str) -> bool:
        return name in self._meta

    def __setitem__(self, name: str, value: Any) -> None:
        # Lists and dictionaries are changed in place, as users may hold references to them.
        old = self._meta.get(name)
        if isinstance(old, list) and isinstance(value, list):
            old[:] = value
        elif isinstance(old, dict) and isinstance(value, dict):
            old.update(value)
        else:
            self._meta[name] = value

    def get(self, name: str) -> Any:
        return self._meta.get(name)

    def pop(self, name: str) -> None:
        self._meta.pop(name, None)

    def make_ref(self, ref: dict[str, Any]) -> Any:
        return ref


class _ModelMetadata(_Metadata):
    ATTRS = {
        "ownerReferences": "owner_references",
        "generateName": "generate_name",
    }

    def __init__(self, obj: Any) -> None:
        super().__init__()
        if obj.metadata is None:
            obj.metadata = thirdparty.make_model(obj, "V1ObjectMeta", {})
        self._meta = obj.metadata

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __setitem__(self, name: str, value: Any) -> None:
        attr = self.ATTRS.get(name, name)
        if isinstance(value, dict):
            # In place, because the models validate assigned values and reject null labels.
            if getattr(self._meta, attr) is None:
                setattr(self._meta, attr, {})
            getattr(self._meta, attr).update(value)
        else:
            setattr(self._meta, attr, value)

    def get(self, name: str) -> Any:
        return getattr(self._meta, self.ATTRS.get(name, name))

    def pop(self, name: str) -> None:
        self[name] = None

    def make_ref(self, ref: dict[str, Any]) -> Any:
        return thirdparty.make_model(
            self._meta, "V1OwnerReference",
            {
                "api_version": ref.get("apiVersion"),
                "block_owner_deletion": ref.get("blockOwnerDeletion"),
                "controller": ref.get("controller"),
                "kind": ref.get("kind"),
                "name": ref.get("name"),
                "uid": ref.get("uid"),
            },
        )
