"""A Kubernetes API server in this process: `kopf.testing.sandbox()`."""

from __future__ import annotations

import os
import pathlib
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from kopf._front.objects import current
from kopf._front.tools.clients import ClusterClient

if TYPE_CHECKING:
    from kopf import _kopf

__all__ = ["greeting", "open_page", "read_manifest", "sandbox", "sandbox_fixture", "wait_for_signal"]

#: A file or folder with manifests, or an object.
Manifest = str | os.PathLike[str] | Mapping[str, Any]

#: Variables by which clients in a pod find their cluster. They take precedence over the
#: kubeconfig, so tests in a pod would change the real cluster.
_IN_CLUSTER = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")


#: The attribute of Kubernetes clients with the default kubeconfig.
_LOCATION = "KUBE_CONFIG_DEFAULT_LOCATION"


class sandbox(ClusterClient):
    """A context manager with a Kubernetes API in memory, for tests and experiments.

    `KUBECONFIG` points to it inside the context, so operators, kubectl and all clients use it. The
    manifests are files, folders, `-` for stdin, or objects as dicts. They are loaded at the start,
    CRDs and namespaces first. There are no nodes and controllers: a Deployment creates no pods,
    unless it is simulated.

    - `rbac` checks every request against roles and bindings.
    - `data` is a folder that stores the objects across restarts.
    - `dumps` are manifests of existing clusters, e.g. from `kubectl get -A -o yaml`. Their objects are
      stored unchanged before the other manifests, with their uids, statuses and owners.
    - `simulate` is `True`, `"all"`, or kinds whose controllers are simulated, such as
      `["pods", "deployments", "replicasets"]`; pods are ready after `ready_after` seconds (1). The
      annotation `sandbox.kopf.dev/simulate` of an object makes it fail.
    - `answers` are the logs of simulated containers and the results of commands in them: a file, or
      a list of dicts such as `{"pod": "db-*", "logs": "ready"}` and
      `{"pod": "db-0", "command": ["pg_isready"], "stdout": "ok", "exitCode": 0}`.
    - `faults` is a file with fault rules, or a list of such rules as dicts.
    - `seed` makes uids, generated names and faults repeatable.
    - `services` maps Services of webhooks, which no pods stand behind, to the URLs of their servers:
      `{"operators/my-webhooks": "https://127.0.0.1:9443"}`, or strings `NAMESPACE/NAME=URL`.

        with sandbox("crd.yaml", {"kind": "KopfExample", ...}) as cluster:
            with KopfRunner(["run", "-A", "operator.py"]):
                cluster.wait("kopfexamples", "one", lambda obj: "status" in obj)
    """

    def __init__(
        self,
        *manifests: Manifest,
        rbac: bool = False,
        data: str | os.PathLike[str] | None = None,
        simulate: bool | str | Iterable[str] = False,
        ready_after: float | None = None,
        answers: str | os.PathLike[str] | Sequence[Mapping[str, Any]] | None = None,
        faults: str | os.PathLike[str] | Sequence[Mapping[str, Any]] | None = None,
        seed: int | None = None,
        port: int | None = None,
        address: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
        dumps: Iterable[Manifest] = (),
        services: Mapping[str, str] | Iterable[str] = (),
    ) -> None:
        super().__init__()
        #: A warning about dropped references to owners that are not among the loaded objects.
        self.warning: str | None = None
        self._options: dict[str, Any] = {
            "rbac": rbac,
            "manifests": manifests,
            "dumps": tuple(dumps),
            "data": None if data is None else os.fspath(data),
            "simulate": _simulated(simulate),
            "ready_after": ready_after,
            "answers": answers,
            "faults": faults,
            "seed": seed,
            "port": port,
            "address": address,
            "services": _mapped(services) or None,
        }
        self._chosen = None if kubeconfig is None else pathlib.Path(kubeconfig)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._native: _kopf.Sandbox | None = None
        self._environ: dict[str, str | None] = {}
        self._locations: list[tuple[Any, Any]] = []

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self._started().url

    @property
    def kubeconfig(self) -> str:
        """The path of the kubeconfig file."""
        self._started()
        return str(self._file)

    @property
    def kubeconfig_text(self) -> str:
        """The content of the kubeconfig file, in YAML."""
        return self._started().kubeconfig

    def start(self) -> None:
        """Starts the server and sets `KUBECONFIG`; reverts everything on errors."""
        from kopf import _kopf

        if self._native is not None:
            raise RuntimeError("the sandbox is already started")
        options = {key: value for key, value in self._options.items() if value is not None}
        for key in ("manifests", "dumps"):
            options[key] = [text for item in options[key] for text in read_manifest(item)]
        for key in ("answers", "faults"):
            if key in options:
                options[key] = _rules(options[key])
        native = _kopf.Sandbox(options)
        self.warning = native.start()
        try:
            self._write(native.kubeconfig)
        except BaseException:
            native.stop()
            raise
        self._native = native
        self._environ = {key: os.environ.pop(key, None) for key in ("KUBECONFIG", *_IN_CLUSTER)}
        os.environ["KUBECONFIG"] = str(self._file)
        self._locations = _relocate(str(self._file))

    def stop(self) -> None:
        """Stops the server and restores the environment; a given kubeconfig file is kept."""
        native, self._native = self._native, None
        if native is None:
            return
        for key, value in self._environ.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value
        for module, location in self._locations:
            setattr(module, _LOCATION, location)
        try:
            native.stop()
        finally:
            self.close()
            if self._folder is not None:
                self._folder.cleanup()

    def __enter__(self) -> sandbox:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> Literal[False]:
        self.stop()
        return False

    def _endpoint(self) -> tuple[str, str]:
        return self.url, self.kubeconfig_text

    def _started(self) -> _kopf.Sandbox:
        if self._native is None:
            raise RuntimeError("the sandbox is not started: use it in a `with` statement")
        return self._native

    def _write(self, text: str) -> None:
        if self._chosen is not None:
            self._file = self._chosen.absolute()
            _check_replaceable(self._file)
        else:
            self._folder = tempfile.TemporaryDirectory(prefix="kopf-sandbox-")
            self._file = pathlib.Path(self._folder.name, "kubeconfig")
        # The file contains credentials, so it is created readable only for the user.
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)


def _mapped(services: Mapping[str, str] | Iterable[str]) -> list[str]:
    if isinstance(services, Mapping):
        return [f"{service}={url}" for service, url in services.items()]
    return list(services)


def _check_replaceable(path: pathlib.Path) -> None:
    """Raises an error if the file exists and is not a kubeconfig of a sandbox."""
    import yaml

    if not path.exists():
        return
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        names = {cluster["name"] for cluster in config["clusters"]}
    except Exception:
        names = set()
    if names != {"kopf-sandbox"}:
        raise FileExistsError(f"{path} is not a kubeconfig of a sandbox: choose another file")


def _relocate(path: str) -> list[tuple[Any, Any]]:
    """Sets the default kubeconfig of imported clients; returns the modules with the former values.

    The packages `kubernetes` and `kubernetes_asyncio` read the variable only when imported.
    """
    former = []
    for package in ("kubernetes", "kubernetes_asyncio"):
        for name in (f"{package}.config", f"{package}.config.kube_config"):
            module = sys.modules.get(name)
            if module is not None and hasattr(module, _LOCATION):
                former.append((module, getattr(module, _LOCATION)))
                setattr(module, _LOCATION, path)
    return former


def _simulated(kinds: bool | str | Iterable[str]) -> str | None:
    """Returns the kinds to simulate in the format of the native sandbox."""
    if isinstance(kinds, bool):
        return "all" if kinds else None
    return kinds if isinstance(kinds, str) else ",".join(kinds) or None


def _rules(rules: str | os.PathLike[str] | Sequence[Mapping[str, Any]]) -> str:
    """Returns the content of a file of rules or answers, or the given ones as YAML."""
    if isinstance(rules, (str, os.PathLike)):
        return pathlib.Path(rules).read_text(encoding="utf-8")
    import json

    return json.dumps([dict(rule) for rule in rules])


def read_manifest(manifest: Manifest) -> Iterator[str]:
    """Yields the contents of manifests; of folders, all YAML and JSON files ordered by name."""
    if isinstance(manifest, Mapping):
        import json

        yield json.dumps(dict(manifest))
        return
    if manifest == "-":
        yield sys.stdin.read()
        return
    path = pathlib.Path(manifest)
    if path.is_dir():
        names = sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml", ".json"))
        for name in names:
            yield name.read_text(encoding="utf-8")
        return
    yield path.read_text(encoding="utf-8")


def sandbox_fixture(
    *manifests: Manifest,
    scope: Literal["function", "class", "module", "package", "session"] = "function",
    **options: Any,
) -> Any:
    """Returns a pytest fixture with a sandbox.

    cluster = kopf.testing.sandbox_fixture("crd.yaml", scope="module")

    def test_creation(cluster):
        ...
    """
    import pytest

    @pytest.fixture(scope=scope)
    def cluster() -> Iterator[sandbox]:
        with sandbox(*manifests, **options) as started:
            yield started

    return cluster


def open_page(cluster: sandbox) -> str:
    """Serves the page of `kopf ui` until the sandbox stops; returns its URL.

    The page shows the objects of the operator that is started next in this context.
    """
    native = cluster._started()
    current.page_var.set(native)
    return native.open_page()


def greeting(cluster: sandbox, title: str, page: str | None = None) -> str:
    """Returns instructions for using the sandbox from another terminal or in a browser."""
    folder = cluster._options["data"]
    browser = "" if page is None else f"  browser     {page}\n"
    end = "deletes all objects" if folder is None else f"keeps the objects in {folder}"
    return (
        f"{title}: a Kubernetes API in memory, without nodes.\n"
        f"  listens on  {cluster.url}\n"
        f"  kubeconfig  {cluster.kubeconfig}\n"
        f"{browser}"
        f"In another terminal:\n"
        f"  export KUBECONFIG={shlex.quote(cluster.kubeconfig)}\n"
        f"  kubectl get all -A\n"
        f"Ctrl-C stops it and {end}."
    )


def wait_for_signal() -> None:
    """Waits for SIGINT, SIGTERM or SIGHUP; restores the former signal handlers."""
    stop = threading.Event()
    signals = [signal.SIGINT, signal.SIGTERM, *filter(None, [getattr(signal, "SIGHUP", None)])]
    former = {signum: signal.signal(signum, lambda *_: stop.set()) for signum in signals}
    try:
        # Signal handlers of Python run between the waits, not during them.
        while not stop.wait(timeout=0.5):
            pass
    finally:
        for signum, handler in former.items():
            signal.signal(signum, handler)
