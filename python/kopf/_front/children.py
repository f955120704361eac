"""Server-side apply of children."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kopf._front import current, hierarchies, thirdparty

if TYPE_CHECKING:
    from kopf._front.bodies import Body

__all__ = ["apply_child", "apply_child_sync"]


async def apply_child(
    obj: Any, *, owner: Body | None = None, force: bool = False,
) -> dict[str, Any]:
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
    """
    call = current.call()
    return await _apply(call, _manifest(obj), hierarchies._guess_owner(owner), force)


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
    coro = _apply(call, _manifest(obj), hierarchies._guess_owner(owner), force)
    return asyncio.run_coroutine_threadsafe(coro, loop).result()


async def _apply(
    call: current.CurrentCall, manifest: Mapping[str, Any], owner: Body, force: bool,
) -> dict[str, Any]:
    future: asyncio.Future[dict[str, Any]] = call.bridge.loop.create_future()
    call.native.apply_child(dict(owner), manifest, force, future)
    return await future


def _manifest(obj: Any) -> Mapping[str, Any]:
    if isinstance(obj, thirdparty.PykubeObject):
        obj = obj.obj
    if not isinstance(obj, Mapping):
        raise TypeError(f"invalid child {obj!r}: must be a dict with apiVersion and kind")
    return obj
