"""Storages of progress records of handlers."""

from __future__ import annotations

import abc
import copy
import json
from collections.abc import Collection, Mapping
from typing import Any, TypedDict, cast

from kopf._front.objects import dicts
from kopf._front.state import conventions
from kopf._front.objects.bodies import Body, BodyEssence
from kopf._front.objects.ids import HandlerId
from kopf._front.objects.patches import Patch


class ProgressRecord(TypedDict, total=False):
    """What is stored about one handler while an object is being handled, as a dict.

    ``started``, ``stopped`` and ``delayed`` are times in ISO 8601, ``purpose`` is the reason of the
    handling, ``retries`` the number of attempts, ``success`` and ``failure`` the outcome, ``message`` the
    last error, ``subrefs`` the ids of sub-handlers. Custom storages read and write it.
    """

    started: str | None
    stopped: str | None
    delayed: str | None
    purpose: str | None
    retries: int | None
    success: bool | None
    failure: bool | None
    message: str | None
    subrefs: Collection[HandlerId] | None


class ProgressStorage(conventions.StorageStanzaCleaner, metaclass=abc.ABCMeta):
    """The base class of storages of progress records: which handlers are done, and which are retried.

    Subclass it to keep the records elsewhere. The methods get the object and the patch, so that a storage
    can write to either of them, or to another place::

        class InMemory(kopf.ProgressStorage):
            def __init__(self):
                super().__init__()
                self.records = {}

            def fetch(self, *, key, body):
                return self.records.get((body.meta.uid, key))

            def store(self, *, key, record, body, patch):
                self.records[body.meta.uid, key] = record

            def purge(self, *, key, body, patch):
                self.records.pop((body.meta.uid, key), None)

            def touch(self, *, body, patch, value): ...

            def clear(self, *, essence):
                return super().clear(essence=essence)

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.persistence.progress_storage = InMemory()
    """

    @abc.abstractmethod
    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        """Returns the record of the handler, or ``None``."""
        raise NotImplementedError("a progress storage must implement this method without super()")

    @abc.abstractmethod
    def store(
        self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch,
    ) -> None:
        """Stores the record of the handler."""
        raise NotImplementedError("a progress storage must implement this method without super()")

    @abc.abstractmethod
    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        """Removes the record of the handler."""
        raise NotImplementedError("a progress storage must implement this method without super()")

    @abc.abstractmethod
    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Makes a dummy change of the object, so that it is processed again."""
        raise NotImplementedError("a progress storage must implement this method without super()")

    @abc.abstractmethod
    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        """Returns the essence without the state of this storage. By default, a deep copy."""
        return copy.deepcopy(essence)

    def flush(self) -> None:
        """Completes the preceding operations. Called after each batch of them."""


class AnnotationsProgressStorage(
    conventions.StorageKeyFormingConvention,
    conventions.StorageKeyMarkingConvention,
    ProgressStorage,
):
    """Progress records in annotations of the object, one for each handler.

    Arguments:

    - ``prefix``: the prefix of the annotations; ``kopf.zalando.org`` by default. Choose your own if
      several operators handle the same objects.
    - ``verbose``: ``True`` also stores empty fields; ``False`` by default.
    - ``touch_key``: the name of the annotation that wakes the operator up; ``touch-dummy`` by default.
    - ``v1``: ``True`` also reads and writes the names of annotations of Kopf before 1.0 if they differ;
      the default.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="my.example.com")
    """

    def __init__(
        self,
        *,
        prefix: str = "kopf.zalando.org",
        verbose: bool = False,
        touch_key: str = "touch-dummy",
        v1: bool = True,
    ) -> None:
        super().__init__(prefix=prefix, v1=v1)
        self.verbose = verbose
        self.touch_key = touch_key

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        for full_key in self.make_keys(key, body=body):
            value = body.metadata.annotations.get(full_key)
            if value is not None:
                content = json.loads(value)
                if content is not None:
                    return cast(ProgressRecord, content)
        return None

    def store(
        self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch,
    ) -> None:
        content = {
            name: value for name, value in record.items() if self.verbose or value is not None
        }
        value = json.dumps(content, separators=(",", ":"))
        for full_key in self.make_keys(key, body=body):
            patch.metadata.annotations[full_key] = value
        self._store_marker(prefix=self.prefix, patch=patch, body=body)

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        for full_key in self.make_keys(key, body=body):
            _purge_field(("metadata", "annotations", full_key), body=body, patch=patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        for full_key in self.make_keys(self.touch_key, body=body):
            if body.metadata.annotations.get(full_key) != value:
                patch.metadata.annotations[full_key] = value
                self._store_marker(prefix=self.prefix, patch=patch, body=body)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        essence = super().clear(essence=essence)
        annotations = cast(dict[str, Any], essence.get("metadata", {})).get("annotations", {})
        keys = {key for key in annotations if key.startswith(f"{self.prefix}/")}
        self.remove_annotations(essence, keys)
        self.remove_empty_stanzas(essence)
        return essence


class StatusProgressStorage(ProgressStorage):
    """Progress records in the status of the object. The schema of the resource must have the field.

    Arguments:

    - ``name``: replaces ``{name}`` in the fields; ``kopf`` by default.
    - ``field``: the field with the records; ``status.{name}.progress`` by default.
    - ``touch_field``: the field that wakes the operator up; ``status.{name}.dummy`` by default.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.persistence.progress_storage = kopf.StatusProgressStorage(field="status.my-operator")
    """

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: dicts.FieldSpec = "status.{name}.progress",
        touch_field: dicts.FieldSpec = "status.{name}.dummy",
    ) -> None:
        super().__init__()
        self._name = name
        self._field = dicts.parse_field(_format(field, name))
        self._touch_field = dicts.parse_field(_format(touch_field, name))
        self._writable = True

    @property
    def name(self) -> str:
        """The name that replaces ``{name}`` in the fields."""
        return self._name

    @property
    def field(self) -> dicts.FieldPath:
        """The field with the records of all handlers."""
        return self._field

    @field.setter
    def field(self, field: dicts.FieldSpec) -> None:
        self._field = dicts.parse_field(_format(field, self._name))

    @property
    def touch_field(self) -> dicts.FieldPath:
        """The field that is changed to trigger the processing."""
        return self._touch_field

    @touch_field.setter
    def touch_field(self, field: dicts.FieldSpec) -> None:
        self._touch_field = dicts.parse_field(_format(field, self._name))

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        container: Mapping[Any, Any] | None = dicts.resolve(body, self.field, None)
        if not isinstance(container, Mapping):
            return None
        return cast("ProgressRecord | None", container.get(key))

    def store(
        self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch,
    ) -> None:
        if self._writable:
            dicts.ensure(patch, (*self.field, key), record)

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        _purge_field((*self.field, key), body=body, patch=patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        if self._writable and dicts.resolve(body, self.touch_field, None) != value:
            dicts.ensure(patch, self.touch_field, value)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        essence = super().clear(essence=essence)
        try:
            dicts.remove(cast(dict[str, Any], essence), self.field)
        except TypeError:
            pass  # A parent is not a dictionary, so there are no records.
        return essence


class NoWriteStatusProgressStorage(StatusProgressStorage):
    """Progress records in the status that are read and removed but never written.

    Only the constructor differs, so that the engine serves this storage natively.
    """

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: dicts.FieldSpec = "status.{name}.progress",
        touch_field: dicts.FieldSpec = "status.{name}.dummy",
    ) -> None:
        super().__init__(name=name, field=field, touch_field=touch_field)
        self._writable = False


class MultiProgressStorage(ProgressStorage):
    """Several storages of progress records: all are written, and the first one with a record is read.

    Use it to move from one storage to another while objects are being handled.

    Arguments:

    - ``storages``: the storages, in the order of reading.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.persistence.progress_storage = kopf.MultiProgressStorage([
                kopf.AnnotationsProgressStorage(prefix="my.example.com"),
                kopf.AnnotationsProgressStorage(prefix="old.example.com"),
            ])
    """

    def __init__(self, storages: Collection[ProgressStorage]) -> None:
        super().__init__()
        self.storages = storages

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        for storage in self.storages:
            content = storage.fetch(key=key, body=body)
            if content is not None:
                return content
        return None

    def store(
        self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch,
    ) -> None:
        for storage in self.storages:
            storage.store(key=key, record=record, body=body, patch=patch)

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        for storage in self.storages:
            storage.purge(key=key, body=body, patch=patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        for storage in self.storages:
            storage.touch(body=body, patch=patch, value=value)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        for storage in self.storages:
            essence = storage.clear(essence=essence)
        return essence

    def flush(self) -> None:
        for storage in self.storages:
            storage.flush()


class SmartProgressStorage(MultiProgressStorage):
    """The default storage of progress records: annotations, and the status for reading records of old
    versions of Kopf.

    Arguments:

    - ``name``: replaces ``{name}`` in the fields; ``kopf`` by default.
    - ``field``: the field of old records; ``status.{name}.progress`` by default.
    - ``touch_key``: the name of the annotation that wakes the operator up; ``touch-dummy`` by default.
    - ``touch_field``: the field of old versions for that; ``status.{name}.dummy`` by default.
    - ``prefix``: the prefix of the annotations; ``kopf.zalando.org`` by default. Choose your own if
      several operators handle the same objects.
    - ``v1``: ``True`` also reads and writes the names of annotations of Kopf before 1.0 if they differ;
      the default.
    - ``verbose``: ``True`` also stores empty fields; ``False`` by default.

    ::

        storage = kopf.SmartProgressStorage(prefix="my.example.com")
        assert len(storage.storages) == 2
    """

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: dicts.FieldSpec = "status.{name}.progress",
        touch_key: str = "touch-dummy",
        touch_field: dicts.FieldSpec = "status.{name}.dummy",
        prefix: str = "kopf.zalando.org",
        v1: bool = True,
        verbose: bool = False,
    ) -> None:
        super().__init__([
            AnnotationsProgressStorage(
                v1=v1, prefix=prefix, verbose=verbose, touch_key=touch_key),
            NoWriteStatusProgressStorage(name=name, field=field, touch_field=touch_field),
        ])


def _format(field: dicts.FieldSpec, name: str) -> dicts.FieldSpec:
    return field.format(name=name) if isinstance(field, str) else field


def _purge_field(path: dicts.FieldPath, *, body: Body, patch: Patch) -> None:
    """Removes a field from the object if present, otherwise from the patch."""
    absent = object()
    if dicts.resolve(body, path, absent) is not absent:
        dicts.ensure(patch, path, None)
    elif dicts.resolve(patch, path, absent) is not absent:
        dicts.remove(patch, path)
