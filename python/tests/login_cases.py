"""Logins with kubeconfigs of all kinds, with the original or with this package.

`python login_cases.py` prints the credentials of all cases; with `--record`, it writes the known
answers, for which it needs the original, `kubernetes` and `pykube-ng`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

LOGINS = ("login_via_client", "login_via_pykube", "login_with_kubeconfig")
ANSWERS = pathlib.Path(__file__).parent / "logins.json"
_TOKEN = {"token": "tkn"}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _write(folder: pathlib.Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o700)
    return str(path)


def _cases(folder: pathlib.Path) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Returns the users and clusters of the kubeconfigs."""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    output = json.dumps({**credential, "status": {"token": "from-plugin"}})
    plugin = _write(folder, "plugin", f"#!/bin/sh\necho '{output}'\n")
    command = {"apiVersion": credential["apiVersion"], "command": plugin, "interactiveMode": "Never"}
    data = {"client-certificate-data": _encoded("CERT"), "client-key-data": _encoded("KEY")}
    files = {
        "client-certificate": _write(folder, "cert", "CERT"),
        "client-key": _write(folder, "key", "KEY"),
    }
    tls = {"server": "https://host:6443"}
    usual = {**tls, "certificate-authority-data": _encoded("CA")}
    return {
        "token": (_TOKEN, usual),
        "certificate-data": (data, usual),
        "certificate-files": (files, usual),
        "password": ({"username": "u", "password": "p"}, usual),
        "token-file": ({"tokenFile": _write(folder, "token", "from-file")}, usual),
        "plugin": ({"exec": command}, usual),
        "anonymous": ({}, usual),
        "authority-file": (_TOKEN, {**tls, "certificate-authority": _write(folder, "ca", "CA")}),
        "insecure": (_TOKEN, {**tls, "insecure-skip-tls-verify": True}),
        "http": (_TOKEN, {"server": "http://host:8080"}),
        "proxy": (_TOKEN, {**tls, "proxy-url": "http://proxy:3128", "tls-server-name": "other"}),
    }


def _kubeconfig(user: dict[str, Any], cluster: dict[str, Any]) -> str:
    context = {"cluster": "c", "user": "u", "namespace": "ns"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": context}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    return json.dumps(config)


def _login(name: str) -> dict[str, Any]:
    """Logs in, and returns the credentials, files by their content."""
    import kopf

    kwargs = {"settings": kopf.OperatorSettings(), "logger": logging.getLogger(), "retry": 0}
    try:
        info = getattr(kopf, name)(**kwargs)
    except kopf.LoginError as exc:
        return {"error": str(exc)}
    except OSError as exc:
        return {"error": type(exc).__name__}
    if info is None:
        return {}
    result = {}
    for field in dataclasses.fields(info):
        value = getattr(info, field.name)
        if value is not None and field.name != "expiration":
            is_path = field.name.endswith("_path")
            result[field.name] = pathlib.Path(value).read_text() if is_path else value
    if name == "login_via_client":
        result["client"] = _client()
    return result


def _client() -> dict[str, Any]:
    """Returns the default configuration of the client library, which logins set."""
    import kubernetes

    default = kubernetes.client.Configuration.get_default_copy()
    return {
        "host": default.host,
        "keys": default.api_key,
        "verify": default.verify_ssl,
        "authority": default.ssl_ca_cert and pathlib.Path(default.ssl_ca_cert).read_text(),
        "certificate": default.cert_file and pathlib.Path(default.cert_file).read_text(),
    }


def _all() -> dict[str, Any]:
    """Logs in with all functions and all kubeconfigs, in this process."""
    import kubernetes

    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["HOME"] = name
        for case, (user, cluster) in {**_cases(folder), "absent": ({}, {})}.items():
            path = folder / f"{case}.kubeconfig"
            if cluster:
                path.write_text(_kubeconfig(user, cluster))
            os.environ["KUBECONFIG"] = str(path)
            # The library reads the variable only when it is imported.
            kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION = str(path)
            kubernetes.client.Configuration.set_default(None)
            results[case] = {name: _login(name) for name in LOGINS}
    return results


def evaluate() -> Any:
    """Returns the results of all logins, from a separate process, as they change the environment."""
    import kopf

    # The same package as in this process, regardless of installed packages.
    env = {**os.environ, "PYTHONPATH": str(pathlib.Path(kopf.__file__).parents[1])}
    return json.loads(subprocess.check_output([sys.executable, __file__], env=env))


if __name__ == "__main__":
    text = json.dumps(_all(), indent=1, sort_keys=True) + "\n"
    if sys.argv[1:] == ["--record"]:
        ANSWERS.write_text(text)
    else:
        sys.stdout.write(text)
