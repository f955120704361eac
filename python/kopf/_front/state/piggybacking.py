"""Login functions: credentials of client libraries, of kubeconfigs, of service accounts.

The default functions have side effects: :func:`login_via_client` configures the package
``kubernetes`` globally, so that operators can use it without loading a configuration.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kopf._front.objects import current, thirdparty
from kopf._front.objects.errors import LoginError

if TYPE_CHECKING:
    from kopf._front.objects.causes import Logger
    from kopf._front.state.configuration import OperatorSettings
    from kopf._front.state.credentials import ConnectionInfo

PRIORITY_OF_CLIENT: int = 10
PRIORITY_OF_ASYNC_CLIENT: int = 15
PRIORITY_OF_KUBECONFIG: int = 10
PRIORITY_OF_PYKUBE: int = 20
PRIORITY_OF_SERVICE_ACCOUNT: int = 20

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SERVICE_ACCOUNT_SERVER = "https://kubernetes.default.svc"


def has_pykube() -> bool:
    """Returns ``True`` if the package ``pykube`` is installed."""
    return _is_installed("pykube")


def has_sync_client() -> bool:
    """Returns ``True`` if the package ``kubernetes`` is installed."""
    return _is_installed("kubernetes")


def has_client() -> bool:
    """Returns ``True`` if the package ``kubernetes`` is installed."""
    return has_sync_client()


def has_async_client() -> bool:
    """Returns ``True`` if the package ``kubernetes_asyncio`` is installed."""
    return _is_installed("kubernetes_asyncio")


def has_kubeconfig() -> bool:
    """Returns ``True`` if a kubeconfig is configured, or exists in the home directory."""
    return sandbox_kubeconfig() is not None or bool(os.environ.get("KUBECONFIG")) or os.path.exists(_default_kubeconfig())


def has_service_account() -> bool:
    """Returns ``True`` if the process runs in a pod with a service account."""
    return os.path.exists(f"{SERVICE_ACCOUNT}/token")


def sandbox_kubeconfig() -> str | None:
    """Returns the kubeconfig of the last sandbox of this process, `None` if there is none."""
    return next(reversed(current.sandbox_kubeconfigs.values()), None)


def iter_default_logins() -> Iterator[Any]:
    """Yields the login functions for operators without login handlers."""
    if has_pykube():
        yield login_via_pykube
    if has_client():
        yield login_via_client
    elif has_async_client():
        yield login_via_async_client
    if has_pykube() or has_client() or has_async_client():
        return
    if has_kubeconfig():
        yield login_with_kubeconfig
    if has_service_account():
        yield login_with_service_account


def login_via_client(
    *,
    logger: Logger,
    settings: OperatorSettings,
    **_: Any,
) -> ConnectionInfo | None:
    """Logs in with the package ``kubernetes``, in a pod or with a kubeconfig, and configures that package, so
    that handlers can use it. Called by default if it is installed. Returns ``None`` if it is not.

    Arguments:

    - ``logger``, ``settings``: those of the login handler; pass ``**kwargs``.

    ::

        @kopf.on.login()
        def login_fn(**kwargs):
            return kopf.login_via_client(**kwargs)
    """
    kubernetes = thirdparty.optional("kubernetes")
    if kubernetes is None:
        return None
    config = kubernetes.config
    if sandbox := sandbox_kubeconfig():
        config.load_kube_config(config_file=sandbox)
        return _from_client(_get_default(kubernetes.client), settings, priority=PRIORITY_OF_CLIENT)
    try:
        config.load_incluster_config()
        logger.debug("Client is configured in cluster with service account.")
    except config.ConfigException as e1:
        try:
            config.load_kube_config()
            logger.debug("Client is configured via kubeconfig file.")
        except config.ConfigException as e2:
            logger.debug("Client login failed: %s; %s", e1, e2)
            raise LoginError("Cannot authenticate the client library "
                             "neither in-cluster, nor via kubeconfig.") from e2
    return _from_client(_get_default(kubernetes.client), settings, priority=PRIORITY_OF_CLIENT)


async def login_via_async_client(
    *,
    logger: Logger,
    settings: OperatorSettings,
    **_: Any,
) -> ConnectionInfo | None:
    """Logs in with the package ``kubernetes_asyncio``, and configures that package for handlers. Called by
    default if it is installed and ``kubernetes`` is not. Returns ``None`` if it is not installed.

    Arguments:

    - ``logger``, ``settings``: those of the login handler; pass ``**kwargs``.

    ::

        @kopf.on.login()
        async def login_fn(**kwargs):
            return await kopf.login_via_async_client(**kwargs)
    """
    kubernetes = thirdparty.optional("kubernetes_asyncio")
    if kubernetes is None:
        return None
    config = kubernetes.config
    if sandbox := sandbox_kubeconfig():
        await config.load_kube_config(config_file=sandbox)
        default = _get_default(kubernetes.client)
        return _from_client(default, settings, priority=PRIORITY_OF_ASYNC_CLIENT)
    try:
        config.load_incluster_config()
        logger.debug("Async client is configured in cluster with service account.")
    except config.ConfigException as e1:
        try:
            await config.load_kube_config()
            logger.debug("Async client is configured via kubeconfig file.")
        except config.ConfigException as e2:
            logger.debug("Async client login failed: %s; %s", e1, e2)
            raise LoginError("Cannot authenticate the async client library "
                             "neither in-cluster, nor via kubeconfig.") from e2
    default = _get_default(kubernetes.client)
    return _from_client(default, settings, priority=PRIORITY_OF_ASYNC_CLIENT)


def login_via_pykube(
    *,
    logger: Logger,
    settings: OperatorSettings,
    **_: Any,
) -> ConnectionInfo | None:
    """Logs in with the package ``pykube-ng``, in a pod or with a kubeconfig. Called by default if it is
    installed. Returns ``None`` if it is not.

    Arguments:

    - ``logger``, ``settings``: those of the login handler; pass ``**kwargs``.

    ::

        @kopf.on.login()
        def login_fn(**kwargs):
            return kopf.login_via_pykube(**kwargs)
    """
    pykube = thirdparty.optional("pykube")
    if pykube is None:
        return None
    sandbox = sandbox_kubeconfig()
    try:
        if sandbox is not None:
            raise FileNotFoundError(sandbox)
        config = pykube.KubeConfig.from_service_account()
        logger.debug("Pykube is configured in cluster with service account.")
    except FileNotFoundError:
        try:
            config = pykube.KubeConfig.from_file(*([sandbox] if sandbox else []))
            logger.debug("Pykube is configured via kubeconfig file.")
        except (pykube.PyKubeError, FileNotFoundError) as e:
            raise LoginError("Cannot authenticate pykube "
                             "neither in-cluster, nor via kubeconfig.") from e
    user, cluster = config.user or {}, config.cluster or {}
    provider_token = None
    if user.get("auth-provider"):
        # The library retrieves the token of an auth provider on its first request.
        pykube.HTTPClient(config).get(version="", base="/")
        provider_token = (config.user["auth-provider"].get("config") or {}).get("access-token")
    from kopf._front.state.credentials import ConnectionInfo

    ca, cert, key = (_filename(cluster, "certificate-authority"),
                     _filename(user, "client-certificate"), _filename(user, "client-key"))
    return ConnectionInfo(
        server=cluster["server"],
        ca_path=ca,
        insecure=cluster.get("insecure-skip-tls-verify"),
        username=user.get("username"),
        password=user.get("password"),
        token=user.get("token") or provider_token,
        certificate_path=cert,
        private_key_path=key,
        default_namespace=config.namespace,
        proxy_url=cluster.get("proxy-url"),
        trust_env=settings.networking.trust_env,
        priority=PRIORITY_OF_PYKUBE,
    )


def login_with_service_account(
    *,
    settings: OperatorSettings,
    **_: Any,
) -> ConnectionInfo | None:
    """Logs in with the service account of the pod, without any client library. Returns ``None`` outside of
    pods. Called by default if no client library is installed.

    Arguments:

    - ``logger``, ``settings``: those of the login handler; pass ``**kwargs``.

    ::

        @kopf.on.login()
        def login_fn(**kwargs):
            return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
    """
    token = _read_file(f"{SERVICE_ACCOUNT}/token")
    if token is None or sandbox_kubeconfig() is not None:
        return None
    from kopf._front.state.credentials import ConnectionInfo

    ca_path = f"{SERVICE_ACCOUNT}/ca.crt"
    return ConnectionInfo(
        server=SERVICE_ACCOUNT_SERVER,
        ca_path=ca_path if os.path.exists(ca_path) else None,
        token=token or None,
        default_namespace=_read_file(f"{SERVICE_ACCOUNT}/namespace") or None,
        trust_env=settings.networking.trust_env,
        priority=PRIORITY_OF_SERVICE_ACCOUNT,
    )


def login_with_kubeconfig(
    *,
    settings: OperatorSettings,
    **_: Any,
) -> ConnectionInfo | None:
    """Logs in with the kubeconfig of ``KUBECONFIG`` or ``~/.kube/config``, without any client library; also
    with credential plugins and OIDC. Returns ``None`` if there is none. Called by default if no client
    library is installed.

    Arguments:

    - ``logger``, ``settings``: those of the login handler; pass ``**kwargs``.

    ::

        @kopf.on.login()
        def login_fn(**kwargs):
            return kopf.login_with_kubeconfig(**kwargs)
    """
    from kopf._front.state import kubeconfigs

    variable = sandbox_kubeconfig() or os.environ.get("KUBECONFIG")
    if not variable and not os.path.exists(_default_kubeconfig()):
        return None
    paths = [path for path in (variable or _default_kubeconfig()).split(os.pathsep) if path]
    return kubeconfigs.read(
        paths, trust_env=settings.networking.trust_env, priority=PRIORITY_OF_KUBECONFIG)


def _from_client(config: Any, settings: OperatorSettings, *, priority: int) -> ConnectionInfo:
    from kopf._front.state.credentials import ConnectionInfo

    header: str | None = config.get_api_key_with_prefix("authorization")
    if not header:
        header = config.get_api_key_with_prefix("BearerToken")
    scheme, _, token = (header or "").partition(" ")
    if header and not token:
        scheme, token = "", scheme
    return ConnectionInfo(
        server=config.host,
        ca_path=config.ssl_ca_cert,
        insecure=not config.verify_ssl,
        username=config.username or None,
        password=config.password or None,
        scheme=scheme or None,
        token=token or None,
        certificate_path=config.cert_file,
        private_key_path=config.key_file,
        proxy_url=getattr(config, "proxy", None),
        trust_env=settings.networking.trust_env,
        priority=priority,
    )


def _get_default(client: Any) -> Any:
    if hasattr(client.Configuration, "get_default_copy"):
        return client.Configuration.get_default_copy()
    return client.Configuration()


def _filename(section: dict[str, Any], name: str) -> str | None:
    value = section.get(name)
    return value.filename() if value else None


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _default_kubeconfig() -> str:
    return os.path.expanduser("~/.kube/config")


def _read_file(path: str) -> str | None:
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as stream:
        return stream.read().strip()
