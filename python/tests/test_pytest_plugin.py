"""The plugin for pytest, in processes of their own."""

from __future__ import annotations

import json
import pathlib

import pytest
from behaviour import CRD

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.native

HANDLERS = """
import kopf

@kopf.timer("kopfexamples", interval=3600)
def tick(logger, **_):
    logger.info("the clock strikes")
"""

TESTS = """
import os
import pytest

OBJECT = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one"}, "spec": {}}

def test_operator(kopf_sandbox, kopf_operator):
    before = os.environ.get("KUBECONFIG")
    with kopf_operator("handlers.py") as runner:
        kopf_sandbox.create(OBJECT)
        kopf_sandbox.wait("kopfexamples", "one", lambda obj: obj["metadata"].get("finalizers"))
    assert os.environ.get("KUBECONFIG") == before
    assert runner.exit_code == 0

@pytest.mark.kopf_sandbox(time="virtual")
def test_virtual_time(kopf_sandbox, kopf_operator):
    with kopf_operator("handlers.py") as runner:
        kopf_sandbox.create(OBJECT)
        kopf_sandbox.wait("kopfexamples", "one", lambda obj: obj["metadata"].get("finalizers"))
        kopf_sandbox.advance(10 * 3600 + 60)
        assert runner.output.count("the clock strikes") in (10, 11)

@pytest.mark.kopf_sandbox({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}})
def test_marker(kopf_sandbox):
    assert kopf_sandbox.get("configmaps", "extra")
"""

SESSION = """
import os, pathlib
import kopf.testing

def test_session():
    client = kopf.testing.ClusterClient(os.environ["KUBECONFIG"])
    assert client.get("customresourcedefinitions", "kopfexamples.kopf.dev")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(handlers=HANDLERS)
    pathlib.Path(pytester.path, "crd.json").write_text(json.dumps(CRD))
    pytester.makeini(
        "[pytest]\naddopts = -p kopf._front.tools.pytest_plugin --strict-markers\n"
        "kopf_manifests = crd.json\n"
    )
    return pytester


def test_fixtures_run_operators_on_sandboxes(project: pytest.Pytester) -> None:
    project.makepyfile(test_fixtures=TESTS)
    result = project.runpytest_subprocess("-q", "-W", "ignore")
    result.assert_outcomes(passed=3)


def test_the_option_runs_all_tests_on_a_sandbox(project: pytest.Pytester) -> None:
    project.makepyfile(test_session=SESSION)
    result = project.runpytest_subprocess("--kopf-sandbox", "-W", "ignore")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["kopf sandbox: https://*"])


def test_without_the_option_the_environment_is_unchanged(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", "mine")
    project.makepyfile(
        test_it="import os\n\ndef test_it():\n    assert os.environ['KUBECONFIG'] == 'mine'\n")
    project.runpytest_subprocess("-q", "-W", "ignore").assert_outcomes(passed=1)


def test_the_plugin_is_an_entry_point() -> None:
    import importlib
    import tomllib

    root = pathlib.Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    plugin = importlib.import_module(project["entry-points"]["pytest11"]["kopf"])
    assert plugin.pytest_addoption and plugin.kopf_sandbox and plugin.kopf_operator
