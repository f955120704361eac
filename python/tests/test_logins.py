"""Login functions without client libraries."""

from __future__ import annotations

import pathlib

import pytest

import kopf
from kopf._front.declare import registries
from kopf._front.state import piggybacking

KUBECONFIG = """
current-context: {context}
contexts:
- {{name: one, context: {{cluster: c1, user: u1, namespace: ns1}}}}
- {{name: two, context: {{cluster: c1, user: u2}}}}
clusters:
- name: c1
  cluster: {{server: "https://host:6443", certificate-authority-data: Q0E=, proxy-url: "http://p"}}
users:
- {{name: u1, user: {{token: {token}}}}}
- {{name: u2, user: {{auth-provider: {{config: {{access-token: access}}}}}}}}
"""


@pytest.fixture()
def settings() -> kopf.OperatorSettings:
    return kopf.OperatorSettings()


def write(path: pathlib.Path, *, context: str = "one", token: str = "tkn") -> str:
    path.write_text(KUBECONFIG.format(context=context, token=token))
    return str(path)


@pytest.fixture()
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(piggybacking, "SERVICE_ACCOUNT", str(tmp_path / "account"))
    return tmp_path


def test_kubeconfig_is_read(
    folder: pathlib.Path, settings: kopf.OperatorSettings, monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.networking.trust_env = True
    monkeypatch.setenv("KUBECONFIG", write(folder / "config"))
    assert kopf.login_with_kubeconfig(settings=settings) == kopf.ConnectionInfo(
        server="https://host:6443", ca_data="Q0E=", token="tkn", default_namespace="ns1",
        proxy_url="http://p", trust_env=True, priority=10)


def test_first_kubeconfig_takes_precedence(
    folder: pathlib.Path, settings: kopf.OperatorSettings, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "empty").touch()
    first = write(folder / "first", token="tkn1")
    second = write(folder / "second", token="tkn2", context="two")
    monkeypatch.setenv("KUBECONFIG", f"{folder / 'empty'}:{first}:{second}")
    info = kopf.login_with_kubeconfig(settings=settings)
    assert info is not None and info.token == "tkn1"


def test_token_of_auth_provider(
    folder: pathlib.Path, settings: kopf.OperatorSettings, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", write(folder / "config", context="two"))
    info = kopf.login_with_kubeconfig(settings=settings)
    assert info is not None and info.token == "access"


@pytest.mark.parametrize("context", ["unknown", '""'])
def test_unknown_context_is_a_login_error(
    folder: pathlib.Path, settings: kopf.OperatorSettings, monkeypatch: pytest.MonkeyPatch,
    context: str,
) -> None:
    monkeypatch.setenv("KUBECONFIG", write(folder / "config", context=context))
    with pytest.raises(kopf.LoginError):
        kopf.login_with_kubeconfig(settings=settings)


def test_default_kubeconfig(folder: pathlib.Path, settings: kopf.OperatorSettings) -> None:
    assert not piggybacking.has_kubeconfig()
    assert kopf.login_with_kubeconfig(settings=settings) is None
    (folder / ".kube").mkdir()
    write(folder / ".kube" / "config")
    assert piggybacking.has_kubeconfig()
    assert kopf.login_with_kubeconfig(settings=settings) is not None


def test_service_account_is_read(folder: pathlib.Path, settings: kopf.OperatorSettings) -> None:
    assert not piggybacking.has_service_account()
    assert kopf.login_with_service_account(settings=settings) is None
    (folder / "account").mkdir()
    (folder / "account" / "token").write_text("tkn\n")
    (folder / "account" / "namespace").write_text("ns1\n")
    assert piggybacking.has_service_account()
    assert kopf.login_with_service_account(settings=settings) == kopf.ConnectionInfo(
        server="https://kubernetes.default.svc", token="tkn", default_namespace="ns1", priority=20)


@pytest.mark.parametrize("installed, expected", [
    ({"pykube", "kubernetes"}, ["login_via_pykube", "login_via_client"]),
    ({"kubernetes", "kubernetes_asyncio"}, ["login_via_client"]),
    ({"kubernetes_asyncio"}, ["login_via_async_client"]),
    (set(), ["login_with_kubeconfig", "login_with_service_account"]),
])
def test_default_logins(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], expected: list[str],
) -> None:
    monkeypatch.setattr(piggybacking, "_is_installed", lambda name: name in installed)
    monkeypatch.setattr(piggybacking, "has_kubeconfig", lambda: True)
    monkeypatch.setattr(piggybacking, "has_service_account", lambda: True)
    registry = registries.SmartOperatorRegistry()
    handlers = registry._activities.get_all_handlers()
    assert [handler.id for handler in handlers] == expected
    assert all(handler._fallback for handler in handlers)


def test_custom_login_replaces_default_ones() -> None:
    from kopf._front.objects.causes import Activity

    registry = registries.SmartOperatorRegistry()
    kopf.on.login(id="own", registry=registry)(lambda **_: None)
    found = registry._activities.get_handlers(Activity.AUTHENTICATION)
    assert [handler.id for handler in found] == ["own"]
