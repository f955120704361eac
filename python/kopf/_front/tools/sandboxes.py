"""A Kubernetes API server in this process: `kopf.testing.sandbox()`."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from kopf._front.objects import current
from kopf._front.tools import virtual_time
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

    Operators that are started in this process inside the context log in to it; those with login
    handlers of their own use these. There are no nodes and controllers: a Deployment creates no pods,
    unless it is simulated. It has the methods of :class:`kopf.testing.ClusterClient`.

    Arguments:

    - ``manifests``: files, folders, ``-`` for stdin, or objects as dicts, which are loaded on startup,
      CRDs and namespaces first.
    - ``rbac``: ``True`` checks every request against roles and bindings; ``False`` by default.
    - ``data``: a folder that stores the objects across restarts; by default, they are kept in memory.
    - ``simulate``: ``True``, ``"all"``, or kinds whose controllers are simulated, such as ``["pods",
      "deployments", "replicasets"]``. The annotation ``sandbox.kopf.dev/simulate`` of an object makes it
      fail. None by default.
    - ``ready_after``: seconds until simulated pods are ready; 1 by default.
    - ``answers``: the logs of simulated containers and the results of commands in them: a file, or a list
      of dicts such as ``{"pod": "db-*", "logs": "ready"}`` and ``{"pod": "db-0", "command":
      ["pg_isready"], "stdout": "ok", "exitCode": 0}``.
    - ``faults``: a file with fault rules, or a list of such rules as dicts; none by default.
    - ``seed``: makes uids, generated names and faults repeatable; by default, they are random.
    - ``port``, ``address``: where to listen; by default, a free port of ``127.0.0.1``.
    - ``kubeconfig``: the file to write; by default, a temporary one.
    - ``dumps``: manifests of existing clusters, for example of ``kubectl get -A -o yaml``. Their objects
      are stored unchanged before the other manifests, with their uids, statuses and owners.
    - ``services``: maps Services of webhooks, which no pods stand behind, to the URLs of their servers:
      ``{"operators/my-webhooks": "https://127.0.0.1:9443"}``, or strings ``NAMESPACE/NAME=URL``.
    - ``time``: ``"virtual"`` lets the operator of this process follow a time that :meth:`advance` moves;
      otherwise, it passes as usual. The operator is then connected without a login. ``"real"`` by default.
    - ``environ``: ``True`` sets ``KUBECONFIG`` inside the context, for other clients in this process, for
      kubectl, and for operators in other processes. By default, the environment is not changed.

    ::

        import kopf.testing

        with kopf.testing.sandbox("crd.yaml", "obj.yaml") as cluster:
            body = cluster.get("kopfexamples", "kopf-example-1")
            assert body["spec"]["duration"] == "1m"
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
        time: Literal["real", "virtual"] = "real",
        environ: bool = False,
    ) -> None:
        super().__init__()
        if time not in ("real", "virtual"):
            raise ValueError(f"invalid time {time!r}: must be 'real' or 'virtual'")
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
            "virtual": True if time == "virtual" else None,
        }
        self._chosen = None if kubeconfig is None else pathlib.Path(kubeconfig)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._native: _kopf.Sandbox | None = None
        self._is_exported = environ
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
        """Starts the server, and lets operators log in to it; reverts everything on errors."""
        from kopf import _kopf

        if self._native is not None:
            raise RuntimeError("the sandbox is already started: stop it first")
        options = {key: value for key, value in self._options.items() if value is not None}
        for key in ("manifests", "dumps"):
            options[key] = [text for item in options[key] for text in read_manifest(item)]
        for key in ("answers", "faults"):
            if key in options:
                options[key] = _rules(options[key])
        if "virtual" in options and current.virtual_sandbox is not None:
            raise RuntimeError(
                "another sandbox has virtual time already: stop it first, because operators of a process "
                "follow one virtual time"
            )
        native = _kopf.Sandbox(options)
        self.warning = native.start()
        try:
            self._write(native.kubeconfig)
        except BaseException:
            native.stop()
            raise
        self._native = native
        if "virtual" in options:
            current.virtual_sandbox = native
        if self._is_exported:
            self._environ = {key: os.environ.pop(key, None) for key in ("KUBECONFIG", *_IN_CLUSTER)}
            os.environ["KUBECONFIG"] = str(self._file)
            self._locations = _relocate(str(self._file))
        current.sandbox_kubeconfigs[id(self)] = None if self._is_exported else str(self._file)

    def stop(self) -> None:
        """Stops the server and restores the environment; a given kubeconfig file is kept."""
        native, self._native = self._native, None
        if native is None:
            return
        if current.virtual_sandbox is native:
            current.virtual_sandbox = None
        current.sandbox_kubeconfigs.pop(id(self), None)
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

    def faults(self) -> dict[str, Any]:
        """Returns the fault rules with their numbers and counters, and the seed."""
        return cast(dict[str, Any], self.request("GET", "/kopf-sandbox/faults"))

    def add_faults(self, *rules: Mapping[str, Any]) -> list[int]:
        """Adds fault rules, and returns their numbers::

            cluster.add_faults({"fault": "error", "code": 409, "verbs": ["patch"], "times": 3})
        """
        response = self.request("POST", "/kopf-sandbox/faults", [dict(rule) for rule in rules])
        return cast(list[int], response["ids"])

    def remove_faults(self, *numbers: int) -> None:
        """Removes the fault rules with these numbers; without numbers, all of them."""
        for number in numbers or ("",):
            self.request("DELETE", f"/kopf-sandbox/faults/{number}".rstrip("/"))

    def kill_watches(self) -> None:
        """Breaks all watches at once, as a restarted server does."""
        self.request("POST", "/kopf-sandbox/actions/kill-watches")

    def compact(self) -> None:
        """Drops the old versions: watches from them get a 410, and clients list again."""
        self.request("POST", "/kopf-sandbox/actions/compact")

    def reset_connections(self) -> None:
        """Resets all connections."""
        self.request("POST", "/kopf-sandbox/actions/reset-connections")
        self.close()

    def advance(self, seconds: float, *, patience: float = 10.0) -> None:
        """Lets virtual time pass, with everything that happens in it, in order.

        Timers, retries, `stopped.wait()` of daemons, and `asyncio.sleep()` and timeouts in async
        handlers follow the virtual time, as do the timestamps of the sandbox. A day of retries takes
        seconds. Returns when the functions that are due have ended or wait again.

        `time.sleep()` does not follow it, nor do other waits of functions in threads: if such a
        function runs for more than `patience` seconds of real time, `VirtualTimeError` is raised. The
        system time (`datetime.now()`, `time.time()`) does not change.

        Requires `sandbox(time="virtual")`.
        """
        virtual_time.advance(self._started(), seconds, patience)

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Returns a new event loop that follows the virtual time, for an embedded operator::

            with asyncio.Runner(loop_factory=cluster.new_event_loop) as runner:
                runner.run(kopf.operator(clusterwide=True))

        With real time, it is an ordinary event loop.
        """
        native = self._started()
        if current.virtual_sandbox is not native:
            return asyncio.new_event_loop()
        return virtual_time.VirtualLoop(native)

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
    """Returns a pytest fixture with a :class:`kopf.testing.sandbox`.

    Arguments:

    - ``manifests``: the manifests of the sandbox.
    - ``scope``: the scope of the fixture: ``"function"`` (the default), ``"class"``, ``"module"``,
      ``"package"`` or ``"session"``.
    - ``options``: the other arguments of the sandbox.

    ::

        import kopf.testing

        cluster = kopf.testing.sandbox_fixture("crd.yaml", scope="module")

        def test_creation(cluster):
            assert cluster.all("kopfexamples") == []
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
