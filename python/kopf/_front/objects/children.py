"""Server-side apply of children."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, cast

from kopf._front.objects import bodies, current, hierarchies, thirdparty

if TYPE_CHECKING:
    from kopf._front.objects.bodies import Body

__all__ = ["apply_child", "apply_child_sync", "children"]


def apply_child(
    obj: Any, *, owner: Body | None = None, force: bool = False,
) -> Coroutine[Any, Any, dict[str, Any]]:
    """Creates or changes a child by server-side apply, only if there are changes.

    The child gets an owner reference, the namespace and the labels of the owner, and the name of
    the owner if it has none. The default owner is the currently handled object. Returns the child
    as stored by the server.

    The child is written if it does not exist, if the manifest has changed since it was applied (its
    digest is in an annotation), or if other clients have changed fields of the manifest. The field
    manager is ``settings.persistence.field_manager``; by default,
    ``settings.posting.reporting_component``.

    Raises :class:`kopf.ApplyError` if other managers own fields of the manifest, unless ``force``;
    or if the child cannot be applied for other reasons.

    The result must be awaited: otherwise nothing is sent, and the handler fails. Functions that are
    not async use :func:`apply_child_sync`.
    """
    call = current.call()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "kopf.apply_child() must be awaited in an async function: use kopf.apply_child_sync() here"
        ) from None
    return _Applying(call, _apply(call, _manifest(obj), hierarchies._guess_owner(owner), force))


class _Applying(Coroutine[Any, Any, dict[str, Any]]):
    """An unsent child. If it is dropped without being awaited, its handler fails."""

    __slots__ = ("_call", "_coro", "_is_used")

    def __init__(
        self, call: current.CurrentCall, coro: Coroutine[Any, Any, dict[str, Any]],
    ) -> None:
        super().__init__()
        self._call = call
        self._coro = coro
        self._is_used = False

    def __await__(self) -> Generator[Any, Any, dict[str, Any]]:
        self._is_used = True
        return self._coro.__await__()

    def send(self, value: Any, /) -> Any:
        self._is_used = True
        return self._coro.send(value)

    def throw(self, *args: Any) -> Any:
        self._is_used = True
        return self._coro.throw(*args)

    def close(self) -> None:
        self._is_used = True
        self._coro.close()

    def __del__(self) -> None:
        if not self._is_used:
            self._coro.close()
            self._call.forgotten = "kopf.apply_child()"


def apply_child_sync(
    obj: Any, *, owner: Body | None = None, force: bool = False,
) -> dict[str, Any]:
    """Same as :func:`apply_child`, for functions that are not async."""
    call = current.call()
    loop = call.bridge.loop
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        raise RuntimeError(
            "apply_child_sync() would block the event loop: use `await kopf.apply_child()`"
        )
    future = call.bridge.new_blocking_future()
    call.native.apply_child(dict(hierarchies._guess_owner(owner)), _manifest(obj), force, future)
    return cast(dict[str, Any], future.result())


def children(kind: str | None = None) -> list[Body]:
    """Returns the existing objects that the handled object owns, such as its pods.

    Only kinds that some handler of the operator declares with ``owns=`` or ``@kopf.on.child`` are
    known. They are read from the memory of the operator, which watches these kinds anyway: no
    request is sent, and the list can be a moment behind the cluster. With ``kind``, such as
    ``"Pod"``, only the objects of that kind are returned; by default, all. Each item is a
    :class:`kopf.Body`; the one that has changed last is the last one.

    ::

        @kopf.on.create("kopfexamples", owns=["pods"])
        def wait(**_):
            running = [pod for pod in kopf.children("Pod") if pod.status.get("phase") == "Running"]
            if len(running) < 3:
                raise kopf.TemporaryError("not all pods are running", delay=600)

    Works inside of handlers of objects, sync and async; raises an error elsewhere.
    """
    call = current.call()
    return [bodies.Body(body) for body in call.native.children(kind)]


async def _apply(
    call: current.CurrentCall, manifest: Mapping[str, Any], owner: Body, force: bool,
) -> dict[str, Any]:
    future = call.bridge.new_future()
    call.native.apply_child(dict(owner), manifest, force, future)
    return cast(dict[str, Any], await future)


def _manifest(obj: Any) -> Mapping[str, Any]:
    if isinstance(obj, thirdparty.PykubeObject):
        obj = obj.obj
    if not isinstance(obj, Mapping):
        raise TypeError(f"invalid child {obj!r}: must be a dict with apiVersion and kind")
    return obj
