"""Webhook servers and tunnels: client configs, restarts, the aiohttp variant."""

from __future__ import annotations

import asyncio
import base64
import inspect
import pathlib
import ssl
import sys
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

import kopf as package
from kopf._front.serving import webhooks
from kopf._front.objects.errors import AmbiguousResourceError, MissingDataError, UnknownResourceError
from kopf._front.serving.webhooks import (
    WebhookAutoServer,
    WebhookAutoTunnel,
    WebhookDockerDesktopServer,
    WebhookK3dServer,
    WebhookMinikubeServer,
    WebhookNgrokTunnel,
    WebhookServer,
)


class NativeServer:
    """A native server that only counts its starts and stops."""

    made: list[NativeServer] = []

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.state = "new"
        self.made.append(self)

    async def start(self, fn: Any, serving: Any) -> dict[str, Any]:
        self.state = "started"
        bundle = base64.b64encode(b"pem").decode()
        return {"url": f"https://h:{len(self.made)}", "caBundle": bundle}

    async def stop(self) -> None:
        self.state = "stopped"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[NativeServer]:
    NativeServer.made = []
    module = SimpleNamespace(NativeWebhookServer=NativeServer)
    monkeypatch.setitem(sys.modules, "kopf._kopf", module)  # type: ignore[arg-type]
    monkeypatch.setattr(package, "_kopf", module, raising=False)
    return NativeServer.made


REFUSALS = {
    "missing": MissingDataError,
    "unknown": UnknownResourceError,
    "ambiguous": AmbiguousResourceError,
    "failed": RuntimeError,
}


async def review(request: Any, **kwargs: Any) -> Any:
    if isinstance(request, str):
        raise REFUSALS[request]("refused")
    return {"request": request, "webhook": kwargs["webhook"], "header": kwargs["headers"].get("X")}


async def first(server: Any, fn: Any = review) -> Any:
    async with server:
        generator = server(fn)
        try:
            return await anext(generator)
        finally:
            await generator.aclose()


def test_options_are_attributes_with_the_defaults_of_the_original() -> None:
    parameters = inspect.signature(WebhookServer).parameters
    server = WebhookServer()
    for name, parameter in parameters.items():
        assert getattr(server, name) == parameter.default
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert server.file_check_interval == 60.0
    assert list(inspect.signature(WebhookNgrokTunnel).parameters) == [
        "addr", "port", "path", "token", "region", "binary"]  # fmt: skip
    assert list(inspect.signature(WebhookAutoTunnel).parameters) == ["addr", "port", "path"]


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (WebhookServer(), {}),
        (
            WebhookServer(addr="1.2.3.4", port=5, path="/p"),
            {"addr": "1.2.3.4", "port": 5, "path": "/p"},
        ),
        (WebhookServer(verify_mode=ssl.CERT_OPTIONAL), {"verify_mode": "optional"}),
        (WebhookServer(verify_cadata="x", password="s"), {"verify_cadata": b"x", "password": "s"}),
        (WebhookServer(cafile=pathlib.Path("/x")), {"cafile": "/x"}),
        (WebhookServer(extra_sans=iter(["a"])), {"extra_sans": ["a"]}),
        (WebhookK3dServer(), {"default_host": "host.k3d.internal"}),
        (WebhookMinikubeServer(), {"default_host": "host.minikube.internal"}),
        (WebhookDockerDesktopServer(), {"default_host": "host.docker.internal"}),
        (WebhookServer(host="mine"), {"host": "mine"}),
        (WebhookAutoServer(), {}),
    ],
)
async def test_native_options(
    made: list[NativeServer], server: WebhookServer, expected: dict[str, Any]
) -> None:
    await first(server)
    assert made[0].options == {"extra_sans": [], "insecure": False, **expected}
    assert made[0].state == "stopped"


async def test_subclasses_can_rewrite_client_configs(made: list[NativeServer]) -> None:
    class Mine(WebhookServer):
        async def __call__(self, fn: Any) -> Any:
            async for config in super().__call__(fn):
                yield {**config, "url": "https://mine"}

    assert (await first(Mine()))["url"] == "https://mine"


async def test_changed_certificates_restart_the_server(
    made: list[NativeServer], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("one")
    server = WebhookServer(certfile=file, pkeyfile=file, file_check_interval=0.01)
    generator: Any = server(review)
    assert (await anext(generator))["url"] == "https://h:1"
    file.write_text("two")
    assert (await asyncio.wait_for(anext(generator), 10))["url"] == "https://h:2"
    assert [native.state for native in made] == ["stopped", "started"]
    await generator.aclose()
    assert made[1].state == "stopped"


async def test_bundle_is_dumped(made: list[NativeServer], tmp_path: pathlib.Path) -> None:
    await first(WebhookServer(cadump=tmp_path / "ca.pem"))
    assert (tmp_path / "ca.pem").read_bytes() == b"pem"


async def test_insecure_servers_reject_contexts() -> None:
    with pytest.raises(ValueError, match="Insecure mode cannot have an SSL context specified."):
        await first(WebhookServer(insecure=True, context=ssl.create_default_context()))


@pytest.mark.parametrize(
    ("args", "url"),
    [
        (("https", "localhost", 443, ""), "https://localhost"),
        (("https", "localhost", 8443, "/a"), "https://localhost:8443/a"),
        (("http", "::1", 80, "x"), "http://[::1]/x"),
        (("http", "h", 443, "/p/"), "http://h:443/p/"),
        (("https", "[::1]", 1, ""), "https://[::1]:1"),
    ],
)
def test_urls(args: tuple[str, str, int, str], url: str) -> None:
    assert WebhookServer._build_url(*args) == url


@pytest.mark.parametrize(
    ("addr", "accessible"),
    [(None, "localhost"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("1.2.3.4", "1.2.3.4")],
)
def test_accessible_addresses(addr: str | None, accessible: str) -> None:
    assert WebhookServer._get_accessible_addr(addr) == accessible


class PlainServer(WebhookServer):
    """A server with overridden internals, which uses the aiohttp variant."""

    served = 0

    @staticmethod
    async def _serve(fn: Any, request: Any) -> Any:
        PlainServer.served += 1
        return await WebhookServer._serve(fn, request)


@pytest.mark.parametrize(
    ("tail", "data", "status", "expected"),
    [
        ("/abc/def", '{"x": 1}', 200, {"request": {"x": 1}, "webhook": "abc/def", "header": "y"}),
        ("/", '{"x": 1}', 200, {"request": {"x": 1}, "webhook": None, "header": "y"}),
        ("/abc", "not json", 400, None),
        ("/abc", '"missing"', 400, None),
        ("/abc", '"unknown"', 404, None),
        ("/abc", '"ambiguous"', 409, None),
        ("/abc", '"failed"', 500, None),
        ("", "{}", 404, None),
    ],
)
async def test_aiohttp_variant(tail: str, data: str, status: int, expected: Any) -> None:
    server = PlainServer(addr="127.0.0.1", path="/root", insecure=True)
    generator: Any = server(review)
    try:
        config = await anext(generator)
        assert config["url"].endswith("/root")
        async with (
            aiohttp.ClientSession(headers={"X": "y"}) as session,
            session.post(config["url"] + tail, data=data) as response,
        ):
            assert response.status == status
            assert expected is None or await response.json() == expected
    finally:
        await generator.aclose()
    assert PlainServer.served > 0


async def test_detected_hosts_are_used(
    made: list[NativeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def guess_host() -> str:
        return "host.detected"

    monkeypatch.setattr("kopf._front.serving.serving.guess_host", guess_host)
    await first(WebhookAutoServer())
    await first(WebhookAutoTunnel(port=5))
    hosts = [(native.options.get("default_host"), native.options.get("host")) for native in made]
    assert hosts == [("host.detected", None), (None, "host.detected")]


@pytest.mark.native
@pytest.mark.parametrize(
    ("service", "options"),
    [
        ("ns/op:8443", {"service": ("ns/op", 8443), "path": "/p"}),
        ("op", {"service": ("op", 443), "path": "/p"}),
        ({"name": "op"}, {"service": ("op", 443), "path": "/p"}),
        ({"namespace": "ns", "name": "op", "port": 1, "path": "p/"}, {"service": ("ns/op", 1), "path": "p/"}),
    ],
)
def test_services_are_options(service: Any, options: dict[str, Any]) -> None:
    found = WebhookServer(service=service, path="/p")._options()
    assert {key: found[key] for key in options} == options


@pytest.mark.native
@pytest.mark.parametrize(
    "service",
    [5, "", "op:", "op:x", "op:0", "op:65536", "a/b/c:443", "op.ns.svc:443", "https://op:443",
     {}, {"namespace": "ns"}, {"name": ""}, {"name": "Op"}, {"name": 5}, {"name": "op", "port": "x"},
     {"name": "op", "port": -1}, {"name": "op", "port": True}, {"name": "op", "other": 1}],
)  # fmt: skip
def test_invalid_services_are_rejected_with_the_expected_form(service: Any) -> None:
    with pytest.raises(ValueError, match=r"NAMESPACE/NAME") as info:
        WebhookServer(service=service)
    assert "invalid service" in str(info.value)


@pytest.mark.native
def test_paths_of_services_are_those_of_servers_and_accepted_by_api_servers() -> None:
    with pytest.raises(ValueError, match="differs from the path"):
        WebhookServer(service={"name": "op", "path": "/a"}, path="/b")
    with pytest.raises(ValueError, match="invalid path '/A_b'|invalid path \"/A_b\""):
        WebhookServer(service={"name": "op", "path": "/A_b"})


@pytest.mark.native
async def test_aiohttp_variant_announces_services(monkeypatch: pytest.MonkeyPatch) -> None:
    port = WebhookServer._allocate_free_port()
    monkeypatch.setenv("KOPF_WEBHOOK_SERVICE", "ns/op-webhook:443")
    for server, name in (
        (PlainServer(addr="127.0.0.1", port=port), "op-webhook"),
        (PlainServer(addr="127.0.0.1", port=port, service="ns/other:443"), "other"),
    ):
        generator: Any = server(review)
        try:
            config = await anext(generator)
            assert "url" not in config
            assert config["service"] == {"namespace": "ns", "name": name, "port": 443}
            bundle = base64.b64decode(config["caBundle"]).decode()
            context = ssl.create_default_context(cadata=bundle)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=f"{name}.ns.svc"
            )
            writer.close()
        finally:
            await generator.aclose()
    explicit: Any = PlainServer(addr="127.0.0.1", host="here", insecure=True)
    assert (await first(explicit))["url"].startswith("http://here:")
    with pytest.raises(ValueError, match="excludes a host"):
        await first(PlainServer(service="ns/op:1", host="here"))


def ngrok(folder: pathlib.Path, code: str) -> pathlib.Path:
    program = folder / "ngrok"
    program.write_text(f"#!{sys.executable}\nimport sys, os, time\n{code}\n")
    program.chmod(0o755)
    return program


async def test_tunnels_yield_public_urls(made: list[NativeServer], tmp_path: pathlib.Path) -> None:
    code = (
        "line = ' '.join(sys.argv[1:]) + os.environ['NGROK_AUTHTOKEN']\n"
        f"open({str(tmp_path / 'args')!r}, 'w').write(line)\n"
        'print(\'{"msg": "starting"}\', flush=True)\n'
        'print(\'{"msg": "started tunnel", "url": "https://x.ngrok.app/"}\', flush=True)\n'
        "time.sleep(60)"
    )
    binary = ngrok(tmp_path, code)
    tunnel = WebhookNgrokTunnel(port=1234, path="p", token="TOKEN", region="eu", binary=binary)
    assert await first(tunnel) == {"url": "https://x.ngrok.app/p"}
    expected = "http http://localhost:1234 --log stdout --log-format json --region euTOKEN"
    assert (tmp_path / "args").read_text() == expected
    assert made[0].options["insecure"] is True
    assert made[0].state == "stopped"


async def test_failed_tunnels_have_the_message(
    made: list[NativeServer], tmp_path: pathlib.Path
) -> None:
    binary = ngrok(tmp_path, "sys.exit('authentication failed')")
    with pytest.raises(RuntimeError, match="ngrok has exited: authentication failed"):
        await first(WebhookNgrokTunnel(binary=binary))
    assert made[0].state == "stopped"


async def test_missing_programs_are_reported(made: list[NativeServer]) -> None:
    with pytest.raises(FileNotFoundError, match="install ngrok, or pass binary="):
        await first(WebhookNgrokTunnel(binary="/absent/ngrok"))


def test_all_names_are_in_one_module() -> None:
    assert len(webhooks.__all__) == 9
