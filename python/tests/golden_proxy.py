"""A proxy in front of an API server that records the writes of an operator."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import threading
from collections.abc import Mapping
from typing import Any

import aiohttp
import aiohttp.web

from kopf._front.tools.clients import ClusterClient, _credentials

_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)
# Without compression, so that watch events can be read.
_HOP_BY_HOP = {
    "host",
    "connection",
    "transfer-encoding",
    "content-length",
    "authorization",
    "accept-encoding",
}


@dataclasses.dataclass(frozen=True)
class Call:
    """A write with the status of its response."""

    resource: str
    namespace: str | None
    name: str
    subresource: str
    status: int
    body: Any


class RecordingProxy:
    """Forwards all requests to the server of a client, and keeps the writes in `calls`."""

    def __init__(self, client: ClusterClient) -> None:
        super().__init__()
        self._url, kubeconfig = client._endpoint()
        self._tls, self._headers = _credentials(kubeconfig)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))
        self.calls: list[Call] = []
        # The bodies of watch events, so that short-lived states of objects are not missed.
        self.bodies: list[Any] = []
        self.port = 0

    @property
    def kubeconfig(self) -> dict[str, Any]:
        """A kubeconfig for the operator, without credentials."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {"token": "recorded"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }

    def __enter__(self) -> RecordingProxy:
        self._thread.start()
        if not self._ready.wait(30):
            raise TimeoutError("the proxy has not started")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(30)
        self._loop.close()

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        session = aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            headers=self._headers,
            auto_decompress=False,
            skip_auto_headers=["Accept-Encoding"],
        )
        async with session:
            self._session = session
            app = aiohttp.web.Application(client_max_size=2**26)
            app.router.add_route("*", "/{path:.*}", self._forward)
            # Watch streams do not end and are closed here.
            runner = aiohttp.web.AppRunner(
                app, access_log=None, shutdown_timeout=0, handler_cancellation=True
            )
            await runner.setup()
            site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await self._stopping.wait()
            await runner.cleanup()

    async def _forward(self, request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        payload = await request.read()
        async with self._session.request(
            request.method,
            self._url + request.raw_path,
            headers=_end_to_end(request.headers),
            data=payload or None,
        ) as upstream:
            if request.method not in ("GET", "HEAD"):
                self._record(request, upstream.status, payload)
            response = aiohttp.web.StreamResponse(
                status=upstream.status, headers=_end_to_end(upstream.headers)
            )
            # Either side can close a watch stream.
            with contextlib.suppress(ConnectionError, aiohttp.ClientPayloadError):
                await response.prepare(request)
                rest = b""
                async for chunk in upstream.content.iter_any():
                    await response.write(chunk)
                    if "watch" in request.query:
                        *lines, rest = (rest + chunk).split(b"\n")
                        self.bodies += [json.loads(line)["object"] for line in lines if line]
                await response.write_eof()
            return response

    def _record(self, request: aiohttp.web.Request, status: int, payload: bytes) -> None:
        match = _PATH.fullmatch(request.path)
        if match is None:
            return
        self.calls.append(
            Call(
                resource=match["resource"],
                namespace=match["namespace"],
                name=match["name"] or "",
                subresource=match["subresource"] or "",
                status=status,
                body=json.loads(payload) if payload else None,
            )
        )


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.lower() not in _HOP_BY_HOP}
