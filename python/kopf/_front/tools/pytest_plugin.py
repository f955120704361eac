"""The plugin for pytest: sandboxes and operators as fixtures.

It is registered by an entry point of the package. See `docs/test/python.md`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kopf.testing import Exploration, KopfRunner, sandbox

#: Seconds for which the runner waits for the end of an operator.
TIMEOUT = 60.0

_SANDBOX = pytest.StashKey["sandbox"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the command line and of the configuration file."""
    group = parser.getgroup("kopf", "operators of Kubernetes (kopf)")
    group.addoption(
        "--kopf-sandbox", action="store_true",
        help="run all tests on a Kubernetes API in memory: KUBECONFIG points to it",
    )
    parser.addini(
        "kopf_manifests", type="paths", default=[],
        help="manifests of sandboxes, such as CRDs: files or folders, relative to the configuration file",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and starts the sandbox of the whole session if it is requested."""
    config.addinivalue_line(
        "markers",
        "kopf_sandbox(*manifests, **options): manifests and options of the fixture kopf_sandbox, as of "
        "kopf.testing.sandbox()",
    )
    config.addinivalue_line(
        "markers",
        "kopf_explore(*files, **options): files and options of the fixture kopf_exploration, as of "
        "kopf.testing.explore()",
    )
    if config.getoption("kopf_sandbox"):
        from kopf.testing import sandbox

        started = sandbox(*config.getini("kopf_manifests"), environ=True)
        started.start()
        config.stash[_SANDBOX] = started


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stops the sandbox of the session."""
    started = config.stash.get(_SANDBOX, None)
    if started is not None:
        started.stop()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Returns the address of the sandbox of the session."""
    started = config.stash.get(_SANDBOX, None)
    return None if started is None else f"kopf sandbox: {started.url}"


@pytest.fixture
def kopf_sandbox(request: pytest.FixtureRequest) -> Iterator[sandbox]:
    """A Kubernetes API in memory for one test, as of `kopf.testing.sandbox()`.

    It has the manifests of the option `kopf_manifests` in the configuration file, and those of the
    marker; other options of the sandbox are arguments of the marker:

        @pytest.mark.kopf_sandbox("extra.yaml", time="virtual")
        def test_retries(kopf_sandbox):
            kopf_sandbox.advance(3600)
    """
    from kopf.testing import sandbox

    marker = request.node.get_closest_marker("kopf_sandbox")
    given: tuple[Any, ...] = marker.args if marker is not None else ()
    options: dict[str, Any] = marker.kwargs if marker is not None else {}
    folder = request.path.parent
    manifests = [_beside(folder, one) for one in given]
    with sandbox(*request.config.getini("kopf_manifests"), *manifests, **options) as started:
        yield started


@pytest.fixture
def kopf_operator(
    request: pytest.FixtureRequest, kopf_sandbox: sandbox,
) -> Callable[..., KopfRunner]:
    """A function that returns a runner of an operator on the sandbox of the test.

    The arguments are those of `kopf run`: files beside the test, modules, options. By default, the
    operator is cluster-wide and ignores peering. Keyword arguments are those of `KopfRunner`:

        def test_creation(kopf_sandbox, kopf_operator):
            with kopf_operator("handlers.py") as runner:
                kopf_sandbox.create({...})
    """
    folder = request.path.parent

    def prepare(*args: Any, **kwargs: Any) -> KopfRunner:
        from kopf.testing import KopfRunner

        command = ["run", *(str(_beside(folder, one)) for one in args)]
        if not _has(command, "-n", "--namespace", "-A", "--all-namespaces"):
            command.append("--all-namespaces")
        if not _has(command, "-P", "--peering", "--standalone"):
            command.append("--standalone")
        return KopfRunner(command, **{"timeout": TIMEOUT, **kwargs})

    return prepare


@pytest.fixture
def kopf_exploration(request: pytest.FixtureRequest) -> Exploration:
    """The exploration of an operator: `kopf.testing.explore()` with the arguments of the marker.

    Files are beside the test, and the manifests of the option `kopf_manifests` are added:

        @pytest.mark.kopf_explore("handlers.py", object="obj.yaml", time="5m")
        def test_faults(kopf_exploration):
            kopf_exploration.check()

    Explorations take minutes: `pytest -m "not kopf_explore"` leaves them out.
    """
    from kopf.testing import explore

    marker = request.node.get_closest_marker("kopf_explore")
    if marker is None:
        raise pytest.UsageError("the fixture kopf_exploration requires the marker kopf_explore")
    folder = request.path.parent
    options = dict(marker.kwargs)
    for name in ("object", "scenario"):
        if name in options:
            options[name] = _beside(folder, options[name])
    given = [_beside(folder, one) for one in options.pop("manifests", ())]
    manifests = [*request.config.getini("kopf_manifests"), *given]
    files = [_beside(folder, one) for one in marker.args]
    return explore(*files, manifests=manifests, **options)


def _has(command: list[str], *options: str) -> bool:
    return any(one.partition("=")[0] in options for one in command)


def _beside(folder: pathlib.Path, given: Any) -> Any:
    """Returns a file beside the test; other arguments are returned unchanged."""
    if isinstance(given, (str, pathlib.Path)) and (folder / given).exists() and str(given):
        return folder / given
    return given
