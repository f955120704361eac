"""Synchronous calls of users' functions: filters, delays, lifecycles, storages."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from kopf._front.bridge import invocation
from kopf._front.objects.bodies import Body
from kopf._front.objects.patches import Patch

if TYPE_CHECKING:
    from kopf._front.bridge.bridge import Bridge
    from kopf._front.state.diffbase import DiffBaseStorage
    from kopf._front.declare.handlers import Handler
    from kopf._front.state.progress import ProgressStorage
    from kopf._kopf import Call as NativeCall

__all__ = ["Answers"]

_UNSET = object()


class Answers:
    """The part of the bridge that calls users' functions synchronously."""

    handlers: dict[str, Handler]

    def check(
        self, fn: Callable[..., Any], handler: Handler, native: NativeCall, value: Any = _UNSET,
    ) -> bool:
        """Calls a filter."""
        answer = self._ask(fn, handler, native, value)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError(f"the filter {fn!r} is a coroutine function: filters must be plain functions, without async")
        return bool(answer)

    def delay(self, fn: Callable[..., Any], handler: Handler, native: NativeCall) -> Any:
        """Calls a function for an initial delay."""
        return self._ask(fn, handler, native, _UNSET) or 0

    def _ask(
        self, fn: Callable[..., Any], handler: Handler, native: NativeCall, value: Any,
    ) -> Any:
        cause = invocation.make_filter_cause(cast("Bridge", self), native, handler)
        kwargs = {"param": handler.param, **cause.kwargs}
        return fn(**kwargs) if value is _UNSET else fn(value, **kwargs)

    def pick(
        self, fn: Callable[..., Any], native: NativeCall, candidates: list[tuple[str, int]],
    ) -> list[int]:
        """Calls a lifecycle. Returns the positions of the selected handlers."""
        cause = invocation.make_filter_cause(cast("Bridge", self), native, None)
        offered = [self.handlers[name] for name, _ in candidates]
        state = {name: types.SimpleNamespace(retries=retries) for name, retries in candidates}
        chosen = fn(offered, state=state, **cause.kwargs)
        if not isinstance(chosen, Iterable):
            raise TypeError(f"the lifecycle {fn!r} returned {chosen!r}: must be a sequence of handlers")
        positions = {id(handler): number for number, handler in enumerate(offered)}
        return [positions[id(handler)] for handler in chosen if id(handler) in positions]

    # Storages of users. The patch is a dict of the engine, to which changes are copied back.

    def storage_fetch(self, storage: ProgressStorage, key: str, body: Any) -> Any:
        """Reads a progress record."""
        return storage.fetch(key=cast(Any, key), body=Body(body))

    def storage_store(
        self, storage: ProgressStorage, key: str, record: Any, body: Any, merge: dict[str, Any],
    ) -> None:
        """Stores a progress record."""
        patch = Patch(merge)
        storage.store(key=cast(Any, key), record=record, body=Body(body), patch=patch)
        _replace(merge, patch)

    def storage_purge(
        self, storage: ProgressStorage, key: str, body: Any, merge: dict[str, Any],
    ) -> None:
        """Removes a progress record."""
        patch = Patch(merge)
        storage.purge(key=cast(Any, key), body=Body(body), patch=patch)
        _replace(merge, patch)

    def storage_touch(
        self, storage: ProgressStorage, body: Any, merge: dict[str, Any], value: str | None,
    ) -> None:
        """Touches an object, or removes the touch."""
        patch = Patch(merge)
        storage.touch(body=Body(body), patch=patch, value=value)
        _replace(merge, patch)

    def storage_clear(self, storage: ProgressStorage, essence: Any) -> Any:
        """Removes the data of the storage from an essence."""
        return storage.clear(essence=essence)

    def storage_build(
        self, storage: DiffBaseStorage, body: Any, extra_fields: list[list[str]],
    ) -> Any:
        """Builds an essence."""
        return storage.build(body=Body(body), extra_fields={tuple(field) for field in extra_fields})

    def storage_fetch_essence(self, storage: DiffBaseStorage, body: Any) -> Any:
        """Reads the last handled essence."""
        return storage.fetch(body=Body(body))

    def storage_store_essence(
        self, storage: DiffBaseStorage, body: Any, merge: dict[str, Any], essence: Any,
    ) -> None:
        """Stores an essence."""
        patch = Patch(merge)
        storage.store(body=Body(body), patch=patch, essence=essence)
        _replace(merge, patch)


def _replace(merge: dict[str, Any], patch: Mapping[str, Any]) -> None:
    content = dict(patch)
    merge.clear()
    merge.update(content)
