"""Server-side apply of children."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Literal

from kopf._front.objects import bodies, current, hierarchies, models

if TYPE_CHECKING:
    from kopf._front.objects.bodies import Body

__all__ = ["AppliedChild", "apply_child", "children"]

ApplyEffect = Literal["created", "changed", "unchanged"]


def apply_child(
    obj: Any, *, owner: Body | None = None, force: bool = False,
) -> AppliedChild:
    """Creates or changes a child with server-side apply, only if there are changes.

    In async handlers, the result must be awaited: otherwise nothing is sent, and the handler fails.
    In functions that are not async, the call returns when the child is applied::

        @kopf.on.create("kopfexamples")
        async def deploy(spec, **_):
            child = await kopf.apply_child({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}})

        @kopf.on.update("kopfexamples")
        def change(spec, logger, **_):
            child = kopf.apply_child({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "c"}})
            logger.info(f"{child.effect}: {child.object['metadata']['name']}")

    Arguments:

    - ``obj``: the manifest: a dict, a model declared with ``@kopf.crd``, or an object of the packages
      ``kubernetes``, ``kubernetes_asyncio``, ``pykube`` or ``lightkube``. It is not changed. The child
      gets an owner reference, the namespace and the labels of the owner, and the name of the owner if it
      has none.
    - ``owner``: the owner; by default, the object that is being handled.
    - ``force``: ``True`` takes over fields of other managers; ``False`` by default: they are conflicts.

    The child is written if it does not exist, if the manifest has changed since it was applied (its
    digest is in an annotation), or if other clients have changed fields of the manifest. The field
    manager is ``settings.persistence.field_manager``; by default,
    ``settings.posting.reporting_component``.

    Returns an :class:`kopf.AppliedChild` with the ``effect`` and the ``object`` as stored by the server.
    Raises :class:`kopf.ApplyError` with ``code``, ``reason`` and ``conflicts`` if the child is not
    applied.
    """
    call = current.call()
    request = _Request(call, models.to_manifest(obj), hierarchies._guess_owner(owner), force)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        result = request.wait()
        return AppliedChild(request)._applied(result)
    return AppliedChild(request)._announced()


class _Request:
    """A child to be applied by the engine."""

    __slots__ = ("call", "force", "manifest", "owner")

    def __init__(
        self, call: current.CurrentCall, manifest: dict[str, Any], owner: Body, force: bool,
    ) -> None:
        self.call = call
        self.manifest = manifest
        self.owner = owner
        self.force = force

    def wait(self) -> Any:
        """Applies the child from a thread."""
        future = self.call.bridge.new_blocking_future()
        self._send(future)
        return self.call.bridge.result_of(future)

    async def perform(self) -> Any:
        """Applies the child from an event loop: that of the operator, or of a thread."""
        bridge = self.call.bridge
        if asyncio.get_running_loop() is not bridge.loop:
            blocking = bridge.new_blocking_future()
            self._send(blocking)
            return await asyncio.wrap_future(blocking)
        future = bridge.new_future()
        self._send(future)
        return await future

    def _send(self, future: Any) -> None:
        self.call.native.apply_child(dict(self.owner), self.manifest, self.force, future)


class AppliedChild(Awaitable["AppliedChild"]):
    """The result of :func:`kopf.apply_child`: what has happened, and the child.

    ``effect`` is ``"created"``, ``"changed"`` or ``"unchanged"``; ``object`` is the child as stored by
    the server, a dict. In async functions, both are available after ``await``, which returns this
    object. Also accepted by ``asyncio.gather()`` and ``asyncio.create_task()``::

        import asyncio

        @kopf.on.create("kopfexamples")
        async def deploy(logger, **_):
            both = await asyncio.gather(
                kopf.apply_child({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}),
                kopf.apply_child({"apiVersion": "v1", "kind": "ServiceAccount"}),
            )
            logger.info([child.effect for child in both])
    """

    __slots__ = ("__weakref__", "_coro", "_effect", "_is_over", "_object", "_request")

    def __init__(self, request: _Request) -> None:
        super().__init__()
        self._request: _Request | None = request
        self._coro: Coroutine[Any, Any, AppliedChild] | None = None
        self._effect: ApplyEffect
        self._object: dict[str, Any]
        self._is_over = False

    @property
    def effect(self) -> ApplyEffect:
        """What has happened to the child: ``"created"``, ``"changed"`` or ``"unchanged"``."""
        self._verify_applied()
        return self._effect

    @property
    def object(self) -> dict[str, Any]:
        """The child as stored by the server."""
        self._verify_applied()
        return self._object

    def __repr__(self) -> str:
        if not hasattr(self, "_effect"):
            return "<kopf.AppliedChild, not applied>"
        meta = self._object.get("metadata", {})
        return f"<kopf.AppliedChild {self._object.get('kind')}/{meta.get('name')}, {self._effect}>"

    def __await__(self) -> Generator[Any, Any, AppliedChild]:
        return self._start().__await__()

    # The other methods of coroutines, for functions of asyncio that accept only these.

    def send(self, value: Any, /) -> Any:
        return (self._coro or self._start()).send(value)

    def throw(self, *args: Any) -> Any:
        return (self._coro or self._start()).throw(*args)

    def close(self) -> None:
        """Gives the child up: it is not applied if it was not awaited before."""
        self._forget_request()
        self._is_over = True
        if self._coro is not None:
            self._coro.close()

    def __del__(self) -> None:
        if getattr(self, "_request", None) is not None:
            import warnings

            assert self._request is not None
            self._request.call.is_forgetful = True
            warnings.warn("kopf.apply_child() was never awaited", RuntimeWarning, stacklevel=2)

    def _announced(self) -> AppliedChild:
        """Makes the handler fail if it returns before this child is awaited."""
        assert self._request is not None
        call = self._request.call
        if call.unsent is None:
            call.unsent = weakref.WeakSet()
        call.unsent.add(self)
        return self

    def _applied(self, result: tuple[ApplyEffect, dict[str, Any]]) -> AppliedChild:
        self._forget_request()
        self._effect, self._object = result
        return self

    def _start(self) -> Coroutine[Any, Any, AppliedChild]:
        request = self._forget_request()
        if request is None:
            self._coro = self._repeat()
        else:
            self._coro = self._perform(request)
        return self._coro

    async def _perform(self, request: _Request) -> AppliedChild:
        return self._applied(await request.perform())

    async def _repeat(self) -> AppliedChild:
        if self._is_over and not hasattr(self, "_effect"):
            raise RuntimeError(
                "the child was not applied, because its handler has ended: await kopf.apply_child() in "
                "the handler"
            )
        self._verify_applied()
        return self

    def _forget_request(self) -> _Request | None:
        request, self._request = self._request, None
        if request is not None and request.call.unsent is not None:
            request.call.unsent.discard(self)
        return request

    def _verify_applied(self) -> None:
        if not hasattr(self, "_effect"):
            raise RuntimeError("the child is not applied yet: use `await kopf.apply_child(...)`")


def children(kind: str | None = None) -> list[Body]:
    """Returns the existing objects that the handled object owns, such as its pods.

    Only kinds that some handler of the operator declares with ``owns=`` or ``@kopf.on.child`` are
    known. They are read from the memory of the operator, which watches these kinds anyway: no
    request is sent, and the list can be a moment behind the cluster. Each item is a :class:`kopf.Body`;
    the one that has changed last is the last one. Works inside of handlers of objects; raises an error
    elsewhere.

    Arguments:

    - ``kind``: only objects of this kind, such as ``"Pod"``; by default, all.

    ::

        @kopf.on.create("kopfexamples", owns=["pods"])
        def wait(**_):
            running = [pod for pod in kopf.children("Pod") if pod.status.get("phase") == "Running"]
            if len(running) < 3:
                raise kopf.TemporaryError("not all pods are running", delay=600)
    """
    call = current.call()
    return [bodies.Body(body) for body in call.native.children(kind)]
