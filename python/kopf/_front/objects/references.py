"""Resources of the cluster, the selectors of resources, and the patterns of namespaces."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NewType

from kopf._front.objects import models
from kopf._front.objects.records import FrozenRecord

NamespaceName = NewType("NamespaceName", str)
"""A name of one specific namespace."""

NamespacePattern = str | re.Pattern[str]
"""A name, a comma-separated list of globs with exclusions, or a regular expression."""

Namespace = NamespaceName | None
"""A namespace, or ``None`` for cluster-scoped and cluster-wide resources."""


def match_namespace(name: NamespaceName, pattern: NamespacePattern) -> bool:
    """Returns ``True`` if the namespace matches the pattern.

    In a list of globs, each ``!glob`` excludes from the preceding matches. If the first glob
    is an exclusion, everything else is included.
    """
    import fnmatch

    if isinstance(pattern, re.Pattern):
        return bool(pattern.fullmatch(name))
    globs = [glob.strip() for glob in pattern.split(",")]
    if globs[0].startswith("!"):
        globs.insert(0, "*")
    first = matched = fnmatch.fnmatch(name, globs[0])
    for glob in globs[1:]:
        if glob.startswith("!"):
            matched = matched and not fnmatch.fnmatch(name, glob.removeprefix("!"))
        else:
            matched = matched or (first and fnmatch.fnmatch(name, glob))
    return matched


def select_specific_namespaces(patterns: Iterable[NamespacePattern]) -> Collection[NamespaceName]:
    """Returns the patterns that are plain names."""
    return {
        NamespaceName(pattern)
        for pattern in patterns
        if isinstance(pattern, str) and not set("!*?,") & set(pattern)
    }


@dataclasses.dataclass(eq=False, repr=False)
class Resource(FrozenRecord):
    """A resource of the API: the argument ``resource`` of handlers, and of functions that select resources.

    Two resources are equal if their group, version and plural name are. It can be unpacked into these
    three, as functions of the package ``kubernetes`` expect them::

        @kopf.on.event(lambda resource: resource.group == "kopf.dev" and "status" in resource.subresources)
        def seen(resource: kopf.Resource, **_):
            group, version, plural = resource
    """

    group: str
    """The group; empty for the core group."""
    version: str
    """The version, such as ``v1``."""
    plural: str
    """The plural name, such as ``pods``."""
    kind: str | None = None
    """The kind, such as ``Pod``."""
    singular: str | None = None
    """The singular name."""
    shortcuts: frozenset[str] = frozenset()
    """The short names, such as ``po``."""
    categories: frozenset[str] = frozenset()
    """The categories, such as ``all``."""
    subresources: frozenset[str] = frozenset()
    """The subresources, such as ``status``."""
    namespaced: bool | None = None
    """``True`` if its objects are in namespaces."""
    preferred: bool = True
    """``True`` if the server prefers this version of the group."""
    verbs: frozenset[str] = frozenset()
    """The supported verbs, such as ``list``."""

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resource):
            return (self.group, self.version, self.plural) == \
                   (other.group, other.version, other.plural)
        return NotImplemented

    def __repr__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}".strip(".")

    # For unpacking: `CustomObjectsApi().list_cluster_custom_object(*resource)`.
    def __iter__(self) -> Iterator[str]:
        return iter((self.group, self.version, self.plural))

    def get_url(
        self,
        *,
        server: str | None = None,
        namespace: Namespace = None,
        name: str | None = None,
        subresource: str | None = None,
        params: dict[str, str] | None = None,
    ) -> str:
        """Returns the URL of the resource, of an object, or of its subresource.

        Arguments:

        - ``server``: the URL of the server; without it, the result is a path.
        - ``namespace``: the namespace; by default, all namespaces.
        - ``name``: the name of an object; by default, the list of them.
        - ``subresource``: such as ``"status"``; by default, the object itself.
        - ``params``: parameters of the query; none by default.
        """
        import urllib.parse

        if subresource is not None and name is None:
            raise ValueError("Subresources can be used only with specific resources by their name: pass name=.")
        if not self.namespaced and namespace is not None:
            raise ValueError("Specific namespaces are not supported for cluster-scoped resources: leave out "
                             "namespace=.")
        if self.namespaced and namespace is None and name is not None:
            raise ValueError("Specific namespaces are required for specific namespaced resources: pass "
                             "namespace=.")
        core = self.group == "" and self.version == "v1"
        parts = [
            "/api" if core else "/apis",
            self.group,
            self.version,
            f"namespaces/{namespace}" if namespace is not None else None,
            self.plural,
            name,
            subresource,
        ]
        path = "/".join(part for part in parts if part)
        query = f"?{urllib.parse.urlencode(params, encoding='utf-8')}" if params else ""
        return f"{(server or '').rstrip('/')}{path}{query}"


class Marker(enum.Enum):
    """Special values of selectors."""

    EVERYTHING = enum.auto()


EVERYTHING = Marker.EVERYTHING
"""Selects all resources, or all of a group, except for Kubernetes events, which must be named.

::

    @kopf.on.event("kopf.dev", kopf.EVERYTHING)
    def seen(resource, name, **_):
        print(resource.plural, name)
"""

SelectorFn = Callable[[Resource], bool]

# "name.v1", "name.v1beta1.group.tld".
K8S_GROUP_VERSION_PATTERN = re.compile(r"^[^\.]*\.v\d+(?:(?:alpha|beta)\d+)?(?:\..*)?$")


@dataclasses.dataclass(eq=False, repr=False)
class Selector(FrozenRecord):
    """A selector of resources, created from the arguments of decorators.

    Exactly one naming criterion is required: a positional name, a function of a resource, or
    one of the keyword arguments ``kind``, ``plural``, ``singular``, ``shortcut``, ``category``.
    Without a version, only the preferred versions match (all versions for functions).
    """

    arg1: dataclasses.InitVar[str | Marker | SelectorFn | type[Any] | None] = None
    arg2: dataclasses.InitVar[str | Marker | None] = None
    arg3: dataclasses.InitVar[str | Marker | None] = None
    argN: dataclasses.InitVar[None] = None

    group: str | None = None
    version: str | None = None

    kind: str | None = None
    plural: str | None = None
    singular: str | None = None
    shortcut: str | None = None
    category: str | None = None
    any_name: str | Marker | None = None
    fn: SelectorFn | None = None

    def __post_init__(
        self,
        arg1: str | Marker | SelectorFn | type[Any] | None,
        arg2: str | Marker | None,
        arg3: str | Marker | None,
        argN: None,
    ) -> None:
        if argN is not None:
            raise TypeError("Too many positional arguments. Max 3 positional args are accepted: the group, the "
                            "version and the name.")
        for name, value in _parse_args(arg1, arg2, arg3).items():
            object.__setattr__(self, name, value)

        names = [self.kind, self.plural, self.singular, self.shortcut, self.category,
                 self.any_name, self.fn]
        given = [name for name in names if name is not None]
        if len(given) > 1:
            raise TypeError(f"Ambiguous resource specification with {given}: name the resource only once")
        if not given:
            raise TypeError("Unspecific resource with no names. Name the resource or its kind, "
                            "e.g. 'pods', or use kopf.EVERYTHING.")
        if any(name == "" for name in given):
            raise TypeError("Names must not be empty strings; either None or specific strings. To select "
                            "all resources, use kopf.EVERYTHING.")
        if self.fn is None and not isinstance(given[0], (str, Marker)):
            raise TypeError(f"invalid resource name {given[0]!r}: must be a string")

    def __repr__(self) -> str:
        fields = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        text = ", ".join(f"{name}={value!r}" for name, value in fields if value is not None)
        return f"{self.__class__.__name__}({text})"

    @property
    def is_specific(self) -> bool:
        """Returns ``True`` if the selector is for one resource rather than for a set of them."""
        names = (self.kind, self.shortcut, self.plural, self.singular)
        by_any_name = self.any_name is not None and not isinstance(self.any_name, Marker)
        return by_any_name or any(name is not None for name in names)

    def check(self, resource: Resource) -> bool:
        """Returns ``True`` if the resource matches."""
        if self.group is not None and self.group != resource.group:
            return False
        if self.version is not None and self.version != resource.version:
            return False
        if self.fn is not None:
            return not _is_event(resource) and bool(self.fn(resource))
        if self.version is None and not resource.preferred:
            return False
        return self._check_name(resource)

    def _check_name(self, resource: Resource) -> bool:
        if self.any_name is Marker.EVERYTHING:
            return not _is_event(resource)
        if self.any_name is not None:
            return self.any_name in {resource.kind, resource.plural, resource.singular} \
                or self.any_name in resource.shortcuts
        return (
            (self.kind is None or self.kind == resource.kind)
            and (self.plural is None or self.plural == resource.plural)
            and (self.singular is None or self.singular == resource.singular)
            and (self.shortcut is None or self.shortcut in resource.shortcuts)
            and (self.category is None or self.category in resource.categories)
        )

    def select(self, resources: Collection[Resource]) -> Collection[Resource]:
        """Returns the matching resources. Core resources take precedence over others."""
        selected = {resource for resource in resources if self.check(resource)}
        if self.is_specific:
            core = {resource for resource in selected if resource.group == ""}
            selected = core or selected
        return selected


def _is_event(resource: Resource) -> bool:
    # Reacting to events with events is an infinite loop, so only explicit selectors match them.
    return resource.plural == "events" and resource.group in {"", "events.k8s.io"}


def _parse_args(arg1: Any, arg2: Any, arg3: Any) -> dict[str, Any]:
    if isinstance(arg1, type):
        return _parse_model(arg1, arg2, arg3)
    if callable(arg1):
        if arg2 is not None or arg3 is not None:
            raise TypeError("The callable filter cannot have any other selectors: check the group and the version "
                            "of the resource in the function.")
        return {"fn": arg1}
    if arg3 is not None:
        return {"group": arg1, "version": arg2, "any_name": arg3}
    if arg2 is not None:
        if isinstance(arg1, str) and "/" in arg1:
            group, version = arg1.rsplit("/", 1)
            return {"group": group, "version": version, "any_name": arg2}
        if arg1 == "v1":
            return {"group": "", "version": "v1", "any_name": arg2}
        return {"group": arg1, "any_name": arg2}
    if isinstance(arg1, str) and "." in arg1:
        name, tail = arg1.split(".", 1)
        if K8S_GROUP_VERSION_PATTERN.match(arg1):
            version, _, group = tail.partition(".")
            where = {"group": group} if group else {}
            return {**where, "version": version, "any_name": name}
        return {"group": tail, "any_name": name}
    return {"any_name": arg1} if arg1 is not None else {}


def _parse_model(model: type, arg2: Any, arg3: Any) -> dict[str, Any]:
    name = model.__qualname__
    if arg2 is not None or arg3 is not None:
        raise TypeError(f"the model {name} names its resource: remove the other positional arguments")
    resource = models.find(model)
    if resource is None:
        raise TypeError(
            f"invalid resource {name}: the class is not declared; add "
            f'@kopf.crd("example.com", "v1", "{name.rpartition(".")[2].lower()}s") to it, or name the '
            f"resource by strings"
        )
    return {"group": resource.group, "version": resource.version, "plural": resource.plural}


NAMESPACES = Selector("v1", "namespaces")
EVENTS = Selector("v1", "events")
EVENTS_K8S = Selector("events.k8s.io", "events")
CRDS = Selector("apiextensions.k8s.io", "customresourcedefinitions")
CLUSTER_PEERINGS_K = Selector("kopf.dev/v1", "clusterkopfpeerings")
CLUSTER_PEERINGS_Z = Selector("zalando.org/v1", "clusterkopfpeerings")
NAMESPACED_PEERINGS_K = Selector("kopf.dev/v1", "kopfpeerings")
NAMESPACED_PEERINGS_Z = Selector("zalando.org/v1", "kopfpeerings")
MUTATING_WEBHOOK = Selector("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
VALIDATING_WEBHOOK = Selector("admissionregistration.k8s.io", "validatingwebhookconfigurations")

