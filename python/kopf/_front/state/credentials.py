"""Credentials of the API, returned by login handlers."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import os
import warnings
from typing import TYPE_CHECKING, Any, NewType

from kopf._front.objects.errors import AccessError, LoginError

if TYPE_CHECKING:
    import ssl

    import aiohttp

__all__ = [
    "AccessError", "AiohttpSession", "ConnectionInfo", "KubeContext", "LoginError", "Vault",
    "VaultKey",
]

VaultKey = NewType("VaultKey", str)
"""An id of credentials: the id of the login handler that returned them."""

FilePath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeContext:
    """The common options of credentials.

    The credentials with the highest ``priority`` are used. The ``expiration`` is
    in UTC if it has no time zone.
    """

    server: str
    priority: int = 0
    default_namespace: str | None = None
    expiration: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionInfo(KubeContext):
    """The server and the credentials that a login handler returns.

    All arguments are keywords. The ``_data`` ones are PEM, or PEM in base64 as in kubeconfigs; set either
    the path or the data.

    Arguments:

    - ``server``: the URL of the API server; required.
    - ``ca_path``, ``ca_data``: the CAs of the server; by default, those of the system.
    - ``insecure``: ``True`` does not verify the server.
    - ``username``, ``password``: for HTTP Basic authentication.
    - ``scheme``, ``token``: for ``Authorization: <scheme> <token>``; the scheme is ``Bearer`` by default.
    - ``certificate_path``, ``certificate_data``: the certificate of the client.
    - ``private_key_path``, ``private_key_data``: its private key.
    - ``default_namespace``: the namespace of events about cluster-scoped objects.
    - ``proxy_url``: the proxy, such as ``http://proxy:3128``; none by default.
    - ``trust_env``: ``True`` uses the proxy variables of the environment; ``False`` by default.
    - ``priority``: of several credentials, the highest priority is used; 0 by default.
    - ``expiration``: when to log in again; never by default. In UTC unless it has a time zone.

    ::

        info = kopf.ConnectionInfo(server="https://10.0.0.1:6443", token="secret", priority=100)
        assert info.as_http_headers() == {"Authorization": "Bearer secret"}
    """

    ca_path: FilePath | None = None
    ca_data: bytes | str | None = None
    insecure: bool | None = None
    username: str | None = None
    password: str | None = None
    scheme: str | None = None
    token: str | None = None
    certificate_path: FilePath | None = None
    certificate_data: bytes | str | None = None
    private_key_path: FilePath | None = None
    private_key_data: bytes | str | None = None
    proxy_url: str | None = None
    trust_env: bool = False

    def __post_init__(self) -> None:
        pairs = [
            ("CA", self.ca_path, self.ca_data),
            ("certificate", self.certificate_path, self.certificate_data),
            ("private key", self.private_key_path, self.private_key_data),
        ]
        for title, path, data in pairs:
            if path and data:
                raise ValueError(f"Both {title} path & data are set. Need only one: leave out either of them.")

    def as_http_headers(self) -> dict[str, str]:
        """Returns the HTTP headers with the credentials."""
        if self.username and self.password:
            pair = f"{self.username}:{self.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
        if self.scheme and self.token:
            return {"Authorization": f"{self.scheme} {self.token}"}
        if self.scheme:
            return {"Authorization": self.scheme}
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        return {}

    def as_aiohttp_basic_auth(self) -> aiohttp.BasicAuth | None:
        """Returns ``None``: :meth:`as_http_headers` contains the basic authentication."""
        warnings.warn("as_aiohttp_basic_auth() is deprecated, stop calling it. "
                      "The basic auth already comes from as_http_headers().",
                      DeprecationWarning, stacklevel=2)
        return None

    def as_ssl_context(self) -> ssl.SSLContext:
        """Returns a TLS context with the certificates."""
        import ssl
        import tempfile

        cadata = _decode_to_pem(self.ca_data) if self.ca_data else None
        context = ssl.create_default_context(cafile=self.ca_path or None, cadata=cadata)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        with tempfile.TemporaryDirectory() as folder:
            certfile = _as_file(self.certificate_path, self.certificate_data, folder, "cert.pem")
            pkeyfile = _as_file(self.private_key_path, self.private_key_data, folder, "pkey.pem")
            if certfile is not None and pkeyfile is not None:
                context.load_cert_chain(certfile=certfile, keyfile=pkeyfile)
        return context


@dataclasses.dataclass(frozen=True, kw_only=True)
class AiohttpSession(KubeContext):
    """Not supported: a session of ``aiohttp`` for all requests.

    It exists for imports of operators that were written for the original. The engine sends requests
    natively, so login handlers that return it fail with an error that suggests
    :class:`kopf.ConnectionInfo`, which also has proxies and certificates.

    Arguments:

    - ``server``: the URL of the API server; required.
    - ``aiohttp_session``: the session; required.
    - ``priority``, ``default_namespace``, ``expiration``: as for :class:`kopf.ConnectionInfo`.
    """

    aiohttp_session: aiohttp.ClientSession


class Vault:
    """Credentials by ids. Accepted by ``kopf.run()`` for compatibility; the engine has its own."""

    def __init__(self, __src: dict[str, object] | None = None) -> None:
        super().__init__()
        self._current: dict[str, object] = dict(__src or {})

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}: {sorted(self._current)}>"

    def __bool__(self) -> bool:
        raise NotImplementedError("the truth value of a vault is ambiguous: use is_empty()")

    def is_empty(self) -> bool:
        """Returns ``True`` if there are no credentials."""
        return not self._current


def _decode_to_pem(data: str | bytes) -> str:
    text = data.decode("ascii") if isinstance(data, bytes) else data
    if text.lstrip().startswith("-----BEGIN"):
        return text
    return base64.b64decode(text).decode("ascii")


def _as_file(
    path: FilePath | None, data: bytes | str | None, folder: str, name: str,
) -> Any | None:
    if path:
        return path
    if not data:
        return None
    file = os.path.join(folder, name)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(_decode_to_pem(data))
    return file
