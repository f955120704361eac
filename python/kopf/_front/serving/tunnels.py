"""Tunnels from public URLs to webhook servers on this machine."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from kopf._front.serving.servers import ClusterDetector, StrPath, WebhookContextManager, WebhookServer

if TYPE_CHECKING:
    from kopf._front.objects.reviews import WebhookClientConfig, WebhookFn

__all__ = ["WebhookAutoTunnel", "WebhookNgrokTunnel"]

#: Time limit for ngrok to connect, in seconds.
_PATIENCE = 60


class WebhookNgrokTunnel(WebhookContextManager):
    """A tunnel from a public URL to the operator on your machine, for development with remote clusters.

    It runs the program ``ngrok``, which must be installed, as long as the operator runs.

    Arguments:

    - ``addr``: the address of the server behind the tunnel; ``127.0.0.1`` by default.
    - ``port``: its port; by default, a free one.
    - ``path``: the root path; hard to guess ones keep others out. Empty by default.
    - ``token``: the token of your account; by default, that of ngrok's own settings.
    - ``region``: the region of the tunnel; by default, the choice of ngrok.
    - ``binary``: the program; by default, ``ngrok`` in the ``PATH``.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.admission.server = kopf.WebhookNgrokTunnel(path="/a-secret-path")
    """

    addr: str | None
    port: int | None
    path: str | None
    token: str | None
    region: str | None
    binary: StrPath | None

    def __init__(
        self,
        *,
        addr: str | None = None,
        port: int | None = None,
        path: str | None = None,
        token: str | None = None,
        region: str | None = None,
        binary: StrPath | None = None,
    ) -> None:
        super().__init__()
        self.addr = addr
        self.port = port
        self.path = path
        self.token = token
        self.region = region
        self.binary = binary

    async def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        """Serves reviews until the iteration ends; yields a config for each public URL."""
        port = self.port or WebhookServer._allocate_free_port()
        server = WebhookServer(addr=self.addr, port=port, path=self.path, insecure=True)
        host = WebhookServer._get_accessible_addr(self.addr)
        upstream = WebhookServer._build_url("http", host, port, "")
        path = f"/{self.path.strip('/')}" if self.path and self.path.strip("/") else ""
        async with server:
            async for _ in server._persisted(server(fn)):
                async for url in self._persisted(self._tunnel(upstream)):
                    yield {"url": f"{url}{path}"}

    async def _tunnel(self, upstream: str) -> AsyncIterator[str]:
        """Runs ngrok and yields its public URLs; raises an error if it exits."""
        process = await self._spawn(upstream)
        last: collections.deque[str] = collections.deque(maxlen=5)
        try:
            assert process.stdout is not None
            patience: float | None = _PATIENCE
            while True:
                try:
                    line = await asyncio.wait_for(process.stdout.readline(), patience)
                except TimeoutError:
                    raise RuntimeError(f"ngrok is not connected after {_PATIENCE} s: check the network and the token") from None
                if not line:
                    raise RuntimeError(f"ngrok has exited: {' '.join(last) or 'without a message'}")
                url = _parse_url(line)
                if url is None:
                    last.append(line.decode(errors="replace").strip())
                else:
                    patience = None
                    yield url
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()

    async def _spawn(self, upstream: str) -> asyncio.subprocess.Process:
        binary = os.fspath(self.binary) if self.binary is not None else "ngrok"
        region = ["--region", self.region] if self.region else []
        # Command lines are visible to all users of the machine, so the token is in the environment.
        environ = {**os.environ, **({"NGROK_AUTHTOKEN": self.token} if self.token else {})}
        try:
            return await asyncio.create_subprocess_exec(
                binary,
                "http",
                upstream,
                *("--log", "stdout", "--log-format", "json"),
                *region,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environ,
            )
        except FileNotFoundError:
            raise FileNotFoundError(
                f"the program {binary!r} is not found: install ngrok, or pass binary="
            ) from None


class WebhookAutoTunnel(ClusterDetector, WebhookContextManager):
    """A webhook server for development anywhere: in pods and with local clusters, the same as
    :class:`kopf.WebhookAutoServer`; otherwise, a :class:`kopf.WebhookNgrokTunnel`.

    Arguments:

    - ``addr``, ``port``, ``path``: where the server listens; as for the two others.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.admission.server = kopf.WebhookAutoTunnel()
    """

    addr: str | None
    port: int | None
    path: str | None

    def __init__(
        self,
        *,
        addr: str | None = None,
        port: int | None = None,
        path: str | None = None,
    ) -> None:
        super().__init__()
        self.addr = addr
        self.port = port
        self.path = path

    async def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        """Serves reviews until the iteration ends."""
        server: WebhookServer | WebhookNgrokTunnel
        # In a pod of generated manifests; the server announces its Service.
        is_in_pod = bool(os.environ.get("KOPF_WEBHOOK_SERVICE"))
        host = None if is_in_pod else await self.guess_host()
        if host is None and not is_in_pod:
            server = WebhookNgrokTunnel(addr=self.addr, port=self.port, path=self.path)
        else:
            server = WebhookServer(addr=self.addr, port=self.port, path=self.path, host=host)
        async with server:
            async for config in self._persisted(server(fn)):
                yield config


def _parse_url(line: bytes) -> str | None:
    """Returns the public URL of a log line that announces a tunnel."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("msg") != "started tunnel":
        return None
    url = record.get("url")
    return url.rstrip("/") if isinstance(url, str) and url.startswith("https://") else None
