"""
A client of the API server to record from.

Only the standard library is used, see ``record.py``.
"""
import argparse
import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent


def fail(message: str) -> NoReturn:
    print(f"record.py: {message}", file=sys.stderr)
    raise SystemExit(1)


class Refused(Exception):
    """An error response of the server."""

    def __init__(self, method: str, path: str, code: int, body: str) -> None:
        try:
            reason = json.loads(body)["message"]
        except (ValueError, KeyError, TypeError):
            reason = body.strip()[:500]
        super().__init__(f"{method} {path}: HTTP {code}: {reason}")
        self.code = code


class Server:
    """A minimal client of the API server."""

    def __init__(self, url: str, context: ssl.SSLContext, token: str | None) -> None:
        self.url = url.rstrip("/")
        self.token = token
        handler = urllib.request.HTTPSHandler(context=context)
        # Proxies of the environment are not used: the server is local.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)

    def request(
            self, method: str, path: str, body: Any = None, *,
            accept: str = "application/json",
            content_type: str = "application/json",
    ) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Accept", accept)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", content_type)
        try:
            with self.opener.open(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as e:
            raise Refused(method, path, e.code, e.read().decode(errors="replace")) from None
        except urllib.error.URLError as e:
            fail(f"cannot connect to {self.url}: {e.reason}")
        except ValueError as e:
            fail(f"{method} {path}: the response is not JSON: {e}")

    def send(self, method: str, path: str, body: bytes, content_type: str) -> tuple[int, Any]:
        """Returns the code and the body of the response, successful or not."""
        request = urllib.request.Request(self.url + path, method=method, data=body)
        request.add_header("Content-Type", content_type)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with self.opener.open(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)
        except urllib.error.URLError as e:
            fail(f"cannot connect to {self.url}: {e.reason}")

    def get(self, path: str, *, accept: str = "application/json") -> Any:
        return self.request("GET", path, accept=accept)


# --- Connecting.

def connect(args: argparse.Namespace) -> Server:
    if args.server:
        if not args.token:
            fail("--server requires --token (and usually --ca)")
        if args.ca and not Path(args.ca).is_file():
            fail(f"no such file: {args.ca}")
        return Server(args.server, ssl.create_default_context(cafile=args.ca), args.token)
    kubeconfig = args.kubeconfig or os.environ.get("KUBECONFIG")
    if not kubeconfig:
        fail("no server: use --kubeconfig (or KUBECONFIG), or --server, --ca and --token")
    if not Path(kubeconfig).is_file():
        fail(f"no such kubeconfig: {kubeconfig}")
    return connect_by_kubeconfig(read_kubeconfig(kubeconfig, args.kubectl))


def read_kubeconfig(path: str, kubectl: str | None) -> dict[str, Any]:
    # The standard library cannot parse YAML. kubectl can, and resolves the context.
    kubectl = kubectl or shutil.which("kubectl") or built_kubectl()
    command = [kubectl, "config", "view", "--raw", "--minify", "--flatten", "--output=json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "KUBECONFIG": path})
    except OSError as e:
        fail(f"cannot run {kubectl}: {e}")
    if done.returncode != 0:
        fail(f"kubectl cannot read {path}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def built_kubectl() -> str:
    done = subprocess.run([HERE / "build.sh"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        fail("cannot build kubectl, which is required to read a kubeconfig")
    return str(Path(done.stdout.split()[-1]) / "kubectl")


def connect_by_kubeconfig(config: dict[str, Any]) -> Server:
    try:
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"]
        url = cluster["server"]
    except (KeyError, IndexError, TypeError):
        fail("the kubeconfig has no current context with a cluster and a user")
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cadata=base64.b64decode(authority).decode() if authority else None)
    if "client-certificate-data" in user:
        # The ssl module reads client certificates only from files.
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Path(folder, "cert"), Path(folder, "key")
            cert.write_bytes(base64.b64decode(user["client-certificate-data"]))
            key.write_bytes(base64.b64decode(user["client-key-data"]))
            context.load_cert_chain(cert, key)
    elif "token" not in user:
        fail("the kubeconfig's user has neither a client certificate nor a token")
    return Server(url, context, user.get("token"))
