"""Reading of kubeconfig files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kopf._front.state.credentials import ConnectionInfo
from kopf._front.objects.errors import LoginError


def read(paths: Sequence[str], *, trust_env: bool, priority: int) -> ConnectionInfo:
    """Returns the credentials of the current context of the merged files.

    Raises :class:`LoginError` if there is no current context, or if the names in it are unknown.
    """
    merged = _merge([_load(path) for path in paths])
    name = merged["current-context"]
    if name is None:
        raise LoginError("Current context is not set in kubeconfigs.")
    context = _find(merged, "contexts", name)
    cluster = _find(merged, "clusters", context.get("cluster"))
    user = _find(merged, "users", context.get("user")) if context.get("user") else {}
    provider = (user.get("auth-provider") or {}).get("config") or {}
    return ConnectionInfo(
        server=cluster.get("server") or "",
        ca_path=cluster.get("certificate-authority"),
        ca_data=cluster.get("certificate-authority-data"),
        insecure=cluster.get("insecure-skip-tls-verify"),
        certificate_path=user.get("client-certificate"),
        certificate_data=user.get("client-certificate-data"),
        private_key_path=user.get("client-key"),
        private_key_data=user.get("client-key-data"),
        username=user.get("username"),
        password=user.get("password"),
        token=user.get("token") or provider.get("access-token"),
        default_namespace=context.get("namespace"),
        proxy_url=cluster.get("proxy-url"),
        trust_env=trust_env,
        priority=priority,
    )


def _load(path: str) -> dict[str, Any]:
    import os

    import yaml  # type: ignore[import-untyped, unused-ignore]

    with open(os.path.expanduser(path), encoding="utf-8") as stream:
        config = yaml.safe_load(stream.read()) or {}
    if not isinstance(config, dict):
        raise LoginError(f"invalid kubeconfig {path}: must be a YAML mapping")
    return config


def _merge(configs: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {"current-context": None, "contexts": {}, "clusters": {}, "users": {}}
    kinds = {"contexts": "context", "clusters": "cluster", "users": "user"}
    for config in configs:
        if merged["current-context"] is None:
            merged["current-context"] = config.get("current-context") or None
        for section, kind in kinds.items():
            for item in config.get(section) or ():
                merged[section].setdefault(item["name"], item.get(kind) or {})
    return merged


def _find(merged: dict[str, Any], section: str, name: Any) -> dict[str, Any]:
    if name not in merged[section]:
        raise LoginError(f"kubeconfig has no {section.removesuffix('s')} {name!r}")
    found: dict[str, Any] = merged[section][name]
    return found
