"""Servers of admission webhooks.

A server is called with a function that reviews requests, and yields its client configs: the URL or the
Service, and the CA bundle, by which the API server reaches it. Subclasses and wrappers can rewrite these configs.
Requests are served natively. The aiohttp variant is used with `context=` or in subclasses that
override one of the methods beginning with an underscore.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import pathlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import ssl
    from typing import Self

    import aiohttp.web
    from kopf._front.objects.reviews import WebhookClientConfig, WebhookFn

__all__ = [
    "WebhookAutoServer",
    "WebhookContextManager",
    "WebhookDockerDesktopServer",
    "WebhookK3dServer",
    "WebhookMinikubeServer",
    "WebhookServer",
]

_T = TypeVar("_T")

StrPath = str | os.PathLike[str]

#: The port of Services unless they have another one.
_SERVICE_PORT = 443

#: The methods that only the aiohttp variant calls.
_AIOHTTP_METHODS = ("_serve", "_build_ssl", "_build_url", "_allocate_free_port")


class WebhookContextManager:
    """The base class of servers and tunnels that run as long as their context.

    The operator enters the context before it starts iterating, and exits it at the end, because the
    cleanup of asynchronous generators is otherwise delayed until garbage collection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.__generators: list[AsyncIterator[Any]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        generators, self.__generators = self.__generators, []
        for generator in generators:
            if hasattr(generator, "aclose"):
                await generator.aclose()

    def _persisted(self, generator: AsyncIterator[_T]) -> AsyncIterator[_T]:
        """Registers a generator to be closed at the exit of the context."""
        self.__generators.append(generator)
        return generator


class WebhookServer(WebhookContextManager):
    """A webhook server that listens on this machine or in this pod, over HTTPS.

    In a cluster, API servers reach pods through a Service. With ``service``, or with the environment
    variable ``KOPF_WEBHOOK_SERVICE`` that generated manifests set, the server announces that Service
    instead of a URL, and listens on port 9443 unless ``port`` is set.

    Arguments:

    - ``addr``: the address to listen on; by default, all of them.
    - ``port``: the port; by default, a free one, or 9443 behind a Service.
    - ``path``: the root path of the server; empty by default.
    - ``host``: the host name in the announced URL; by default, the address.
    - ``service``: the Service in front of the server: a dict with ``name`` and optionally ``namespace``
      (that of the operator), ``port`` (443) and ``path``; or ``"NAMESPACE/NAME:PORT"``.
    - ``certfile``, ``pkeyfile``: the certificate and its key; by default, both are generated.
    - ``password``: the password of the key; none by default.
    - ``cafile``, ``cadata``: the CA to announce; by default, that of the generated certificate, or the
      certificate itself.
    - ``cadump``: a file to write the announced CA to, for curl and tests; none by default.
    - ``extra_sans``: more names for the generated certificate; none by default.
    - ``insecure``: ``True`` serves plain HTTP, for tunnels; ``False`` by default.
    - ``verify_mode``: whether clients need certificates, as in :mod:`ssl`; by default, they need none.
    - ``verify_cafile``, ``verify_capath``, ``verify_cadata``: the CAs of clients.
    - ``file_check_interval``: seconds between checks for changes of the files; 60 by default.
    - ``context``: an :class:`ssl.SSLContext`; the server then runs on aiohttp instead of the engine.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.admission.server = kopf.WebhookServer(service="operators/my-operator:443")
            settings.admission.managed = "auto.example.com"
    """

    DEFAULT_HOST: str | None = None

    addr: str | None
    port: int | None
    host: str | None
    path: str | None
    cadata: bytes | None
    cafile: StrPath | None
    cadump: StrPath | None
    context: ssl.SSLContext | None
    insecure: bool
    certfile: StrPath | None
    pkeyfile: StrPath | None
    password: str | None
    extra_sans: Iterable[str]
    verify_mode: ssl.VerifyMode | None
    verify_cafile: StrPath | None
    verify_capath: StrPath | None
    verify_cadata: str | bytes | None
    file_check_interval: float
    service: str | Mapping[str, Any] | None

    #: The names of the announced Service, for a generated certificate of the aiohttp variant.
    _service_names: Collection[str] = ()

    def __init__(
        self,
        *,
        addr: str | None = None,
        port: int | None = None,
        path: str | None = None,
        host: str | None = None,
        cadata: bytes | None = None,
        cafile: StrPath | None = None,
        cadump: StrPath | None = None,
        context: ssl.SSLContext | None = None,
        insecure: bool = False,
        certfile: StrPath | None = None,
        pkeyfile: StrPath | None = None,
        password: str | None = None,
        extra_sans: Iterable[str] = (),
        verify_mode: ssl.VerifyMode | None = None,
        verify_cafile: StrPath | None = None,
        verify_capath: StrPath | None = None,
        verify_cadata: str | bytes | None = None,
        file_check_interval: float = 60.0,
        service: str | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.addr = addr
        self.port = port
        self.path = path
        self.host = host
        self.cadata = cadata
        self.cafile = cafile
        self.cadump = cadump
        self.context = context
        self.insecure = insecure
        self.certfile = certfile
        self.pkeyfile = pkeyfile
        self.password = password
        self.extra_sans = extra_sans
        self.verify_mode = verify_mode
        self.verify_cafile = verify_cafile
        self.verify_capath = verify_capath
        self.verify_cadata = verify_cadata
        self.file_check_interval = file_check_interval
        self.service = service
        _Service.parse(service, path)

    async def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        """Serves reviews until the iteration ends; yields a config at each start of the server."""
        if self.insecure and self.context is not None:
            raise ValueError("Insecure mode cannot have an SSL context specified: leave out either insecure= or context=.")
        while True:
            digest = self._files_digest()
            generator = self._serve_by_aiohttp(fn) if self._is_customised() else self._native(fn)
            try:
                async for config in generator:
                    self._dump(config)
                    yield config
                    await self._wait_for_changes(digest)
                    break
            finally:
                await generator.aclose()  # type: ignore[attr-defined]

    async def _native(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        from kopf._kopf import NativeWebhookServer

        from kopf._front.serving import serving

        server = NativeWebhookServer(self._options())
        try:
            starting = server.start(fn, serving.current_serving())
        except LookupError:
            # Outside of an operator, there is no engine to serve requests.
            async for fallback in self._serve_by_aiohttp(fn):
                yield fallback
            return
        config: Any = await starting
        try:
            yield config
        finally:
            await server.stop()

    def _serve_by_aiohttp(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        from kopf._front.serving import aioservers

        return aioservers.serve(self, fn)

    def _is_customised(self) -> bool:
        cls = type(self)
        return self.context is not None or any(
            getattr(cls, name) is not getattr(WebhookServer, name) for name in _AIOHTTP_METHODS
        )

    def _options(self) -> dict[str, Any]:
        """Returns the options of the native server, without the unset ones."""
        paths = ("cafile", "certfile", "pkeyfile", "verify_cafile", "verify_capath")
        service = _Service.parse(self.service, self.path)
        options: dict[str, Any] = {
            "addr": self.addr,
            "port": self.port,
            "path": self.path if service is None else service.path,
            "host": self.host or None,
            "default_host": self.DEFAULT_HOST,
            "service": None if service is None else (service.name, service.port),
            "cadata": self.cadata,
            "password": self.password,
            "verify_cadata": _to_bytes(self.verify_cadata),
            "extra_sans": list(self.extra_sans),
            "insecure": self.insecure,
            **{name: _to_path(getattr(self, name)) for name in paths},
        }
        if self.verify_mode is not None:
            # "none", "optional", "required".
            options["verify_mode"] = self.verify_mode.name.lower().removeprefix("cert_")
        return {key: value for key, value in options.items() if value is not None}

    def _dump(self, config: WebhookClientConfig) -> None:
        bundle: Any = config.get("caBundle")
        if self.cadump is not None and bundle:
            pathlib.Path(self.cadump).write_bytes(base64.b64decode(bundle))

    async def _wait_for_changes(self, digest: bytes) -> None:
        """Waits until the content of the certificate files differs; forever if there are none."""
        if not any((self.certfile, self.pkeyfile, self.cafile)):
            await asyncio.Event().wait()
        while self._files_digest() == digest:
            await asyncio.sleep(self.file_check_interval)

    def _files_digest(self) -> bytes:
        digest = hashlib.sha256()
        for path in (self.certfile, self.pkeyfile, self.cafile):
            if path is not None:
                # Files can be absent while they are being replaced.
                content = pathlib.Path(path).read_bytes() if os.path.exists(path) else b""
                digest.update(hashlib.sha256(content).digest())
        return digest.digest()

    # The aiohttp variant.

    @staticmethod
    async def _serve(fn: WebhookFn, request: aiohttp.web.Request) -> aiohttp.web.Response:
        """Reviews one request."""
        from kopf._front.serving import aioservers

        return await aioservers.respond(fn, request)

    def _build_ssl(self) -> tuple[bytes | None, ssl.SSLContext | None]:
        """Returns the CA bundle for client configs and the TLS context of the server."""
        from kopf._front.serving import aioservers

        return aioservers.build_ssl(self)

    @staticmethod
    def _allocate_free_port() -> int:
        """Returns a currently free port."""
        import socket

        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.bind(("", 0))
            sock.listen()
            port: int = sock.getsockname()[1]
            return port

    @staticmethod
    def _get_accessible_addr(addr: str | None) -> str:
        """Returns the address at which clients reach a server that listens on `addr`."""
        if addr is None:
            return "localhost"
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(addr, addr)

    @staticmethod
    def _build_url(schema: str, host: str, port: int, path: str) -> str:
        """Returns a URL without the default port, with IPv6 addresses in brackets."""
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        is_default = (schema, port) in (("http", 80), ("https", 443))
        root = f"{schema}://{host}" if is_default else f"{schema}://{host}:{port}"
        return f"{root}{'/' if path and not path.startswith('/') else ''}{path}"

    @staticmethod
    def build_certificate(
        hostnames: Collection[str], password: str | None = None
    ) -> tuple[bytes, bytes]:
        """Returns a self-signed certificate for hostnames or IP addresses, and its private key."""
        from kopf._kopf import build_certificate

        return build_certificate(list(hostnames), password)


class _Service(NamedTuple):
    """A Service in front of a server."""

    #: `NAME` or `NAMESPACE/NAME`.
    name: str
    port: int
    path: str | None

    @classmethod
    def parse(cls, given: Any, path: str | None) -> _Service | None:
        """Reads the option of a server with this root path; raises an error if it is invalid."""
        if given is None:
            return None
        if isinstance(given, str):
            name, colon, port = given.partition(":")
            fields: dict[str, Any] = {"name": name, "port": port if colon else _SERVICE_PORT}
        elif isinstance(given, Mapping):
            fields = {key: value for key, value in given.items() if value is not None}
        else:
            raise _invalid_service(given)
        if not {"name"} <= fields.keys() <= {"namespace", "name", "port", "path"}:
            raise _invalid_service(given)
        texts = [fields[key] for key in ("namespace", "name", "path") if key in fields]
        number = str(fields.get("port", _SERVICE_PORT))
        is_port = number.isascii() and number.isdigit() and 0 < int(number) < 65536
        if not is_port or not all(isinstance(text, str) for text in texts):
            raise _invalid_service(given)
        own: str | None = fields.get("path", path)
        if None not in (own, path) and str(own).strip("/") != str(path).strip("/"):
            raise ValueError(f"the path {own!r} of the service differs from the path {path!r} of the server: "
                             f"use the same path")
        name = "/".join([fields[key] for key in ("namespace", "name") if key in fields])

        from kopf._kopf import check_webhook_service

        check_webhook_service(name, int(number), own)
        return cls(name, int(number), own)


def _invalid_service(given: Any) -> ValueError:
    return ValueError(
        f"invalid service {given!r}: must be a mapping with the name, and optionally the namespace, port "
        f"and path, of a Service, or a string NAMESPACE/NAME:PORT, such as 'operators/my-operator:443'"
    )


class WebhookK3dServer(WebhookServer):
    """A webhook server for a K3d or K3s cluster on this machine: it announces ``host.k3d.internal``.

    The arguments are those of :class:`kopf.WebhookServer`.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.admission.server = kopf.WebhookK3dServer(port=54321)
    """

    DEFAULT_HOST = "host.k3d.internal"


class WebhookMinikubeServer(WebhookServer):
    """A webhook server for Minikube on this machine: it announces ``host.minikube.internal``.

    The arguments are those of :class:`kopf.WebhookServer`.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.admission.server = kopf.WebhookMinikubeServer(port=54321)
    """

    DEFAULT_HOST = "host.minikube.internal"


class WebhookDockerDesktopServer(WebhookServer):
    """A webhook server for Docker Desktop on this machine: it announces ``host.docker.internal``.

    The arguments are those of :class:`kopf.WebhookServer`.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.admission.server = kopf.WebhookDockerDesktopServer(port=54321)
    """

    DEFAULT_HOST = "host.docker.internal"


class ClusterDetector:
    """A mixin that detects local clusters by their API servers."""

    @staticmethod
    async def guess_host() -> str | None:
        """Returns the name of this machine in a local cluster, `None` for other clusters."""
        from kopf._front.serving import serving

        return await serving.guess_host()


class WebhookAutoServer(ClusterDetector, WebhookServer):
    """A webhook server that detects a local cluster, and announces the name of this machine in it. In pods,
    and with other clusters, it does the same as :class:`kopf.WebhookServer`.

    The arguments are those of :class:`kopf.WebhookServer`.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.admission.server = kopf.WebhookAutoServer(port=54321)
    """

    async def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        """Serves reviews until the iteration ends."""
        self.DEFAULT_HOST = await self.guess_host()
        async for config in self._persisted(super().__call__(fn)):
            yield config


def _to_path(path: StrPath | None) -> str | None:
    return None if path is None else os.fspath(path)


def _to_bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
