"""Types of admission reviews and of webhook servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, Protocol, TypedDict

from kopf._front.objects.bodies import RawBody

Headers = dict[str, str]
"""The headers of a request for a review, as a dict: the argument ``headers`` of admission handlers.

The names are written as ``Content-Type``::

    @kopf.on.validate("kopfexamples")
    def check(headers: kopf.Headers, logger, **_):
        logger.info(headers.get("User-Agent"))
"""
SSLPeer = dict[str, Any]
"""The verified client certificate of a review, as a dict; empty without one. See ``verify_mode``,
``verify_cafile`` of :class:`kopf.WebhookServer`. The format is that of
:meth:`ssl.SSLSocket.getpeercert`::

    @kopf.on.validate("kopfexamples")
    def check(sslpeer: kopf.SSLPeer, logger, **_):
        logger.info(sslpeer.get("subject"))
"""
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
"""What a client wants to do with an object: ``"CREATE"``, ``"UPDATE"``, ``"DELETE"``, ``"CONNECT"``.

The argument ``operation`` of admission handlers, and the values of the option ``operations``.
"""


class RequestKind(TypedDict):
    group: str
    version: str
    kind: str


class RequestResource(TypedDict):
    group: str
    version: str
    resource: str


class UserInfo(TypedDict):
    """The user whose request is reviewed, as a dict with ``username``, ``uid`` and ``groups``.

    ::

        @kopf.on.validate("kopfexamples")
        def check(userinfo: kopf.UserInfo, **_):
            if "admins" not in userinfo["groups"]:
                raise kopf.AdmissionError(f"{userinfo['username']} is not an admin", code=403)
    """

    username: str
    uid: str
    groups: list[str]


class CreateOptions(TypedDict, total=False):
    apiVersion: Literal["meta.k8s.io/v1"]
    kind: Literal["CreateOptions"]


class UpdateOptions(TypedDict, total=False):
    apiVersion: Literal["meta.k8s.io/v1"]
    kind: Literal["UpdateOptions"]


class DeleteOptions(TypedDict, total=False):
    apiVersion: Literal["meta.k8s.io/v1"]
    kind: Literal["DeleteOptions"]


class RequestPayload(TypedDict):
    """The reviewed request."""

    uid: str
    kind: RequestKind
    resource: RequestResource
    subResource: str | None
    requestKind: RequestKind
    requestResource: RequestResource
    requestSubResource: str | None
    userInfo: UserInfo
    name: str
    namespace: str | None
    operation: Operation
    options: CreateOptions | UpdateOptions | DeleteOptions | None
    dryRun: bool
    object: RawBody
    oldObject: RawBody | None


class Request(TypedDict):
    """An ``AdmissionReview`` sent by the API server."""

    apiVersion: Literal["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]
    kind: Literal["AdmissionReview"]
    request: RequestPayload


class ResponseStatus(TypedDict, total=False):
    code: int
    message: str


class ResponsePayload(TypedDict, total=False):
    uid: str
    allowed: bool
    warnings: list[str] | None
    status: ResponseStatus | None
    patch: str | None
    patchType: Literal["JSONPatch"] | None


class Response(TypedDict):
    """An ``AdmissionReview`` sent by the operator in response."""

    apiVersion: Literal["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]
    kind: Literal["AdmissionReview"]
    response: ResponsePayload


class WebhookClientConfigService(TypedDict, total=False):
    """The Service through which API servers reach a webhook server, as a dict: ``namespace``, ``name``,
    ``path`` and ``port``. A part of :class:`kopf.WebhookClientConfig`.
    """

    namespace: str | None
    name: str | None
    path: str | None
    port: int | None


class WebhookClientConfig(TypedDict, total=False):
    """The address that a webhook server announces, as a dict: ``url`` or ``service``, and ``caBundle``, the
    certificates to trust, in base64.

    ::

        config = kopf.WebhookClientConfig(
            service=kopf.WebhookClientConfigService(namespace="operators", name="mine", port=443),
            caBundle="LS0tLS1CRUdJTi…",
        )
        assert config["service"]["name"] == "mine"
    """

    caBundle: str | None
    url: str | None
    service: WebhookClientConfigService | None


class WebhookFn(Protocol):
    """The function that a webhook server calls for each review: ``response = await fn(review, …)``.

    Arguments:

    - ``request``: the parsed body of the request, an ``AdmissionReview``.
    - ``webhook``: the path of the request without slashes around it, which names the handler.
    - ``headers``: the headers of the request; none by default.
    - ``sslpeer``: the verified certificate of the client; none by default.
    """

    def __call__(
        self,
        request: Request,
        *,
        webhook: str | None = None,
        headers: Headers | None = None,
        sslpeer: SSLPeer | None = None,
    ) -> Awaitable[Response]: ...


WebhookServerProtocol = Callable[[WebhookFn], AsyncIterator[WebhookClientConfig]]
"""A webhook server or tunnel: a function that takes :class:`kopf.WebhookFn` and yields
:class:`kopf.WebhookClientConfig` whenever its address changes, or an object with such a ``__call__``.

For ``settings.admission.server``::

    import asyncio

    async def my_server(fn: kopf.WebhookFn):
        # Listen somewhere, and call `await fn(review)` for each request.
        yield kopf.WebhookClientConfig(url="https://hooks.example.com")
        await asyncio.Event().wait()

    @kopf.on.startup()
    def configure(settings: kopf.OperatorSettings, **_):
        settings.admission.server = my_server
"""
