"""The aiohttp variant of the webhook server, for custom TLS contexts and overridden methods."""

from __future__ import annotations

import base64
import json
import pathlib
import ssl
import tempfile
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import aiohttp.web

from kopf._front.serving import serving
from kopf._front.objects.errors import AmbiguousResourceError, UnknownResourceError, WebhookError

if TYPE_CHECKING:
    from kopf._front.objects.reviews import WebhookClientConfig, WebhookFn

    from kopf._front.serving.servers import WebhookServer

__all__ = ["build_ssl", "respond", "serve"]


async def serve(server: WebhookServer, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
    """Starts the server, yields its client config, and stops it at the end of the iteration."""

    async def handle(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        return await server._serve(fn, request)

    options = server._options()
    announced = await serving.announced_service(options)
    reference, names, default_port = announced or (None, [], 0)
    server._service_names = names
    cadata, context = server._build_ssl()
    path = (options.get("path") or "").rstrip("/")
    path = f"/{path}" if path and not path.startswith("/") else path
    app = aiohttp.web.Application()
    app.add_routes([aiohttp.web.post(f"{path}/{{id:.*}}", handle)])
    runner = aiohttp.web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        port = server.port or default_port or server._allocate_free_port()
        # The port can be reused immediately when the server restarts.
        site = aiohttp.web.TCPSite(
            runner, server.addr or None, port, ssl_context=context, reuse_port=True
        )
        await site.start()
        config: Any = {"service": reference}
        if reference is None:
            schema = "http" if context is None else "https"
            listening = server._get_accessible_addr(server.addr)
            host = server.host or server.DEFAULT_HOST or listening
            config = {"url": server._build_url(schema, host, port, options.get("path") or "")}
        if cadata is not None:
            config["caBundle"] = base64.b64encode(cadata).decode("ascii")
        yield config
    finally:
        await runner.cleanup()


async def respond(fn: WebhookFn, request: aiohttp.web.Request) -> aiohttp.web.Response:
    """Reviews one request.

    Requests that cannot be parsed get the response 400, unknown resources with 404, ambiguous ones
    with 409, all other errors with 500.
    """
    transport = request.transport
    try:
        review = json.loads(await request.text())
        response = await fn(
            review,
            webhook=request.match_info.get("id") or None,
            headers=dict(request.headers),
            sslpeer=transport.get_extra_info("peercert") if transport is not None else None,
        )
        return aiohttp.web.json_response(response)
    except AmbiguousResourceError as exc:
        raise aiohttp.web.HTTPConflict(text=f"409: {exc}") from exc
    except UnknownResourceError as exc:
        raise aiohttp.web.HTTPNotFound(text=f"404: {exc}") from exc
    except (WebhookError, json.JSONDecodeError) as exc:
        raise aiohttp.web.HTTPBadRequest(text=f"400: {exc}") from exc


def build_ssl(server: WebhookServer) -> tuple[bytes | None, ssl.SSLContext | None]:
    """Returns the CA bundle for client configs and the TLS context of the server."""
    cadata = server.cadata
    if cadata is None and server.cafile is not None:
        cadata = pathlib.Path(server.cafile).read_bytes()
    if server.insecure:
        return None, None
    if server.context is not None:
        return cadata, server.context

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if server.verify_cafile or server.verify_capath or server.verify_cadata:
        context.load_verify_locations(
            server.verify_cafile, server.verify_capath, server.verify_cadata
        )
        if context.verify_mode == ssl.CERT_NONE:
            context.verify_mode = ssl.CERT_OPTIONAL
    if server.verify_mode is not None:
        context.verify_mode = server.verify_mode
    if server.certfile is not None and server.pkeyfile is not None:
        context.load_cert_chain(server.certfile, server.pkeyfile, server.password)
        return cadata or pathlib.Path(server.certfile).read_bytes(), context
    return _load_generated(server, context), context


def _load_generated(server: WebhookServer, context: ssl.SSLContext) -> bytes:
    listening = server._get_accessible_addr(server.addr)
    host = server.host or server.DEFAULT_HOST or listening
    names = list(dict.fromkeys([*server._service_names, host, listening, *server.extra_sans]))
    certificate, key = server.build_certificate(names, server.password)
    # The ssl module reads certificates only from files.
    with tempfile.NamedTemporaryFile() as cert_file, tempfile.NamedTemporaryFile() as key_file:
        cert_file.write(certificate)
        cert_file.flush()
        key_file.write(key)
        key_file.flush()
        context.load_cert_chain(cert_file.name, key_file.name, server.password)
    return certificate
