"""Webhook servers of users: iterated in the event loop, with reviews by the engine."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from kopf._front.objects.current import bridge_var
from kopf._front.objects.errors import AmbiguousResourceError, MissingDataError, UnknownResourceError

if TYPE_CHECKING:
    from kopf._front.bridge.bridge import Bridge
    from kopf._kopf import Answer, Engine, Serving

__all__ = ["ServingMixin", "announced_service", "current_serving", "guess_host"]

serving_var: contextvars.ContextVar[Serving] = contextvars.ContextVar("kopf_serving")
"""The interface of the operator for the running webhook server."""

REFUSALS: dict[str, type[Exception]] = {
    "ambiguous": AmbiguousResourceError,
    "unknown": UnknownResourceError,
    "missing": MissingDataError,
}


class ServingMixin:
    """The part of the bridge that runs webhook servers."""

    loop: asyncio.AbstractEventLoop
    context: contextvars.Context
    engine: Engine
    _serving: set[asyncio.Task[None]]

    @staticmethod
    def describe_webhook_server(server: Any) -> dict[str, Any] | None:
        """Describes a provided server for the engine; ``None`` if it must be iterated here."""
        from kopf._front.serving import webhooks

        kinds: dict[type, str] = {
            webhooks.WebhookServer: "server",
            webhooks.WebhookK3dServer: "k3d",
            webhooks.WebhookMinikubeServer: "minikube",
            webhooks.WebhookDockerDesktopServer: "docker_desktop",
            webhooks.WebhookAutoServer: "auto",
            webhooks.WebhookNgrokTunnel: "ngrok",
            webhooks.WebhookAutoTunnel: "auto_tunnel",
        }
        kind = kinds.get(type(server))
        # Methods can also be replaced in the class itself before the operator starts.
        if kind is None or getattr(server, "context", None) is not None:
            return None
        if "__call__" in vars(server) or not type(server).__call__.__module__.startswith("kopf."):
            return None
        if kind in ("ngrok", "auto_tunnel"):
            names = ("addr", "port", "path", "token", "region", "binary")
            options = {name: getattr(server, name, None) for name in names}
        elif server._is_customised():
            return None
        else:
            options = dict(server._options())
            options["file_check_interval"] = server.file_check_interval
            if server.cadump is not None:
                options["cadump"] = str(server.cadump)
        return {"kind": kind, **{key: value for key, value in options.items() if value is not None}}

    def serve(self, server: Any, serving: Serving) -> asyncio.Task[None]:
        """Starts a server of the user. Returns the task, which can be cancelled."""
        task = self.loop.create_task(_serve(cast("Bridge", self), server, serving), context=self.context.copy())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return task

    def review(
        self,
        fn: Callable[..., Awaitable[Any]],
        review: Any,
        webhook: str | None,
        headers: Mapping[str, str],
        sslpeer: Any,
        answer: Answer,
    ) -> None:
        """Reviews a request of a native server by a function of the user."""
        coro = _review(fn, review, webhook, headers, sslpeer, answer)
        task = self.loop.create_task(coro, context=self.context.copy())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)



async def _serve(bridge: Bridge, server: Any, serving: Serving) -> None:
    async def fn(
        review: Any,
        *,
        webhook: str | None = None,
        headers: Mapping[str, str] | None = None,
        sslpeer: Mapping[str, Any] | None = None,
    ) -> Any:
        future = bridge.new_future()
        serving.review(review, webhook, headers, sslpeer, future)
        return await future

    serving_var.set(serving)
    error: str | None = None
    exception: Exception | None = None
    try:
        async with contextlib.AsyncExitStack() as stack:
            if hasattr(server, "__aenter__") and hasattr(server, "__aexit__"):
                # The context can be a factory: what it returns is the server.
                server = await stack.enter_async_context(server)
            configs = server(fn)
            if hasattr(configs, "aclose"):
                stack.push_async_callback(configs.aclose)
            async for config in configs:
                serving.announce(config)
        error = "the webhook server has ended unexpectedly"
    except asyncio.CancelledError:
        pass
    except Exception as exc:
        error, exception = f"{type(exc).__name__}: {exc}", exc
    finally:
        serving.finish(error, exception)


async def _review(
    fn: Callable[..., Awaitable[Any]],
    review: Any,
    webhook: str | None,
    headers: Mapping[str, str],
    sslpeer: Any,
    answer: Answer,
) -> None:
    try:
        answer.respond(await fn(review, webhook=webhook, headers=headers, sslpeer=sslpeer or {}))
    except asyncio.CancelledError:
        answer.refuse("internal", "the operator is stopping")
        raise
    except Exception as exc:
        kinds = [kind for kind, cls in REFUSALS.items() if isinstance(exc, cls)]
        answer.refuse(kinds[0] if kinds else "internal", str(exc) or repr(exc))


def current_serving() -> Serving | None:
    """Returns the interface of the operator whose server runs in this context."""
    return serving_var.get(None)


async def announced_service(
    options: dict[str, Any],
) -> tuple[dict[str, Any], list[str], int] | None:
    """Returns the Service that a server with these options announces, if it announces one.

    It comes with the names for the certificate and the default port of the server.
    """
    from kopf._kopf import announced_webhook_service

    serving = serving_var.get(None)
    namespace: str | None = None
    if serving is not None and "/" not in options.get("service", ["/"])[0]:
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        serving.namespace(future)
        namespace = await future
    is_local = serving is not None and serving.is_loopback and options.get("addr") is None
    return announced_webhook_service(options, namespace, is_local)


async def guess_host() -> str | None:
    """Returns the name of this machine in a local cluster, if the cluster is recognised."""
    serving = serving_var.get(None)
    if serving is None:
        return None
    future: asyncio.Future[str | None] = bridge_var.get().new_future()
    serving.guess_host(future)
    return await future
