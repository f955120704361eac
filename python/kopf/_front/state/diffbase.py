"""Storages of the last handled essences, used to detect changes."""

from __future__ import annotations

import abc
import copy
import json
from collections.abc import Collection, Iterable
from typing import Any, cast

from kopf._front.objects import dicts
from kopf._front.state import conventions
from kopf._front.objects.bodies import Body, BodyEssence
from kopf._front.objects.patches import Patch
from kopf._front.state.progress import _format

KUBECTL_KEY = "kubectl.kubernetes.io/last-applied-configuration"


class DiffBaseStorage(
    conventions.StorageKeyMarkingConvention,
    conventions.StorageStanzaCleaner,
    metaclass=abc.ABCMeta,
):
    """The base class of storages of the last-handled configuration, with which changes are detected.

    Subclass it and implement ``fetch`` and ``store`` to keep the configuration elsewhere; override
    ``build`` to track other fields.

    Arguments:

    - ``ignored_fields``: fields that are not tracked: their changes call no handlers. None by default.

    ::

        class InMemory(kopf.DiffBaseStorage):
            def __init__(self):
                super().__init__(ignored_fields=["spec.replicas"])
                self.essences = {}

            def fetch(self, *, body):
                return self.essences.get(body.meta.uid)

            def store(self, *, body, patch, essence):
                self.essences[body.meta.uid] = essence

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.persistence.diffbase_storage = InMemory()
    """

    def __init__(self, ignored_fields: Iterable[dicts.FieldSpec] | None = None) -> None:
        super().__init__()
        self.ignored_fields = list(ignored_fields or [])

    def build(
        self,
        *,
        body: Body,
        extra_fields: Iterable[dicts.FieldSpec] | None = None,
    ) -> BodyEssence:
        """Returns the essence of the body: the tracked fields.

        These are all fields except for system ones, and the extra fields if they are present.
        """
        essence: dict[str, Any] = copy.deepcopy(dict(body))
        for name in ("apiVersion", "kind", "metadata", "status"):
            essence.pop(name, None)
        tracked = ["metadata.labels", "metadata.annotations"]
        dicts.cherrypick(body, essence, tracked, picker=copy.deepcopy)

        annotations = essence.get("metadata", {}).get("annotations") or {}
        marked = self._detect_marked_prefixes(annotations)
        for key in list(annotations):
            if key == KUBECTL_KEY or any(key.startswith(f"{prefix}/") for prefix in marked):
                del annotations[key]

        dicts.cherrypick(body, essence, extra_fields, picker=copy.deepcopy)
        result = cast(BodyEssence, essence)
        self.remove_empty_stanzas(result)
        for field in self.ignored_fields:
            try:
                dicts.remove(essence, field)
            except TypeError:
                pass  # A parent is not a dictionary, so the field is absent.
        return result

    @abc.abstractmethod
    def fetch(self, *, body: Body) -> BodyEssence | None:
        """Returns the last handled essence, or ``None`` for new objects."""
        raise NotImplementedError("a diff-base storage must implement this method without super()")

    @abc.abstractmethod
    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        """Stores the essence as the last handled one."""
        raise NotImplementedError("a diff-base storage must implement this method without super()")


class AnnotationsDiffBaseStorage(conventions.StorageKeyFormingConvention, DiffBaseStorage):
    """The last-handled configuration in an annotation of the object; the default.

    Arguments:

    - ``prefix``: the prefix of the annotations; ``kopf.zalando.org`` by default. Choose your own if
      several operators handle the same objects.
    - ``key``: the name of the annotation; ``last-handled-configuration`` by default.
    - ``ignored_fields``: fields that are not tracked: their changes call no handlers. None by default.
    - ``v1``: ``True`` also reads and writes the names of annotations of Kopf before 1.0 if they differ;
      the default.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
                prefix="my.example.com", ignored_fields=["spec.replicas"],
            )
    """

    def __init__(
        self,
        *,
        prefix: str = "kopf.zalando.org",
        key: str = "last-handled-configuration",
        ignored_fields: Iterable[dicts.FieldSpec] | None = None,
        v1: bool = True,
    ) -> None:
        super().__init__(prefix=prefix, v1=v1, ignored_fields=ignored_fields)
        self.key = key

    def build(
        self,
        *,
        body: Body,
        extra_fields: Iterable[dicts.FieldSpec] | None = None,
    ) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        self.remove_annotations(essence, set(self.make_keys(self.key, body=body)))
        self.remove_empty_stanzas(essence)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        for full_key in self.make_keys(self.key, body=body):
            encoded = body.metadata.annotations.get(full_key)
            decoded = json.loads(encoded) if encoded is not None else None
            if decoded is not None:
                return cast(BodyEssence, decoded)
        return None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        encoded = json.dumps(essence, separators=(",", ":")) + "\n"
        for full_key in self.make_keys(self.key, body=body):
            patch.metadata.annotations[full_key] = encoded
        self._store_marker(prefix=self.prefix, patch=patch, body=body)


class StatusDiffBaseStorage(DiffBaseStorage):
    """The last-handled configuration in the status of the object. The schema must have the field.

    Arguments:

    - ``name``: replaces ``{name}`` in the fields; ``kopf`` by default.
    - ``field``: the field; ``status.{name}.last-handled-configuration`` by default.
    - ``ignored_fields``: fields that are not tracked: their changes call no handlers. None by default.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(name="my-operator")
    """

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: dicts.FieldSpec = "status.{name}.last-handled-configuration",
        ignored_fields: Iterable[dicts.FieldSpec] | None = None,
    ) -> None:
        super().__init__(ignored_fields=ignored_fields)
        self._name = name
        self._field = dicts.parse_field(_format(field, name))

    @property
    def name(self) -> str:
        """The name that replaces ``{name}`` in the field."""
        return self._name

    @property
    def field(self) -> dicts.FieldPath:
        """The field with the essence."""
        return self._field

    @field.setter
    def field(self, field: dicts.FieldSpec) -> None:
        self._field = dicts.parse_field(_format(field, self._name))

    def build(
        self,
        *,
        body: Body,
        extra_fields: Iterable[dicts.FieldSpec] | None = None,
    ) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        dicts.remove(cast(dict[str, Any], essence), self.field)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        encoded: str | None = dicts.resolve(body, self.field, None)
        return cast("BodyEssence | None", json.loads(encoded)) if encoded is not None else None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        encoded = json.dumps(essence, separators=(",", ":"))
        dicts.ensure(patch, self.field, encoded)


class MultiDiffBaseStorage(DiffBaseStorage):
    """Several storages of the last-handled configuration: all are written, and the first one that has a
    configuration is read. Use it to move from one storage to another.

    Arguments:

    - ``storages``: the storages, in the order of reading.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.persistence.diffbase_storage = kopf.MultiDiffBaseStorage([
                kopf.StatusDiffBaseStorage(name="my-operator"),
                kopf.AnnotationsDiffBaseStorage(),
            ])
    """

    def __init__(self, storages: Collection[DiffBaseStorage]) -> None:
        super().__init__()
        self.storages = storages

    def build(
        self,
        *,
        body: Body,
        extra_fields: Iterable[dicts.FieldSpec] | None = None,
    ) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        for storage in self.storages:
            # Extra fields, e.g. of the status, must be kept by the next storages.
            essence = storage.build(body=Body(essence), extra_fields=extra_fields)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        for storage in self.storages:
            content = storage.fetch(body=body)
            if content is not None:
                return content
        return None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        for storage in self.storages:
            storage.store(body=body, patch=patch, essence=essence)
