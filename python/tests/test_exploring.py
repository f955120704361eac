"""`kopf explore` and `kopf.testing.explore()`."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import pytest

from kopf import testing

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.native

ZOO = pathlib.Path(__file__).parents[2] / "tests/explore/zoo"
SHOP = {"apiVersion": "zoo.example.com/v1", "kind": "Shop", "metadata": {"name": "corner"}}
STEPS = [{"apply": {**SHOP, "spec": {"size": 1}}}]
OPERATOR = [sys.executable, str(ZOO / "python/two_children.py")]
QUICK: dict[str, Any] = {"settle": "400ms", "limit": "5s", "jobs": 2, "no_reduce": True, "fail_fast": True}


def test_bug_is_found() -> None:
    explored = testing.explore(
        command=[*OPERATOR, "--bug"], manifests=[ZOO / "crd.yaml"], scenario=STEPS,
        only=["crash-after"], **QUICK,
    )
    [finding] = explored.findings
    assert finding.oracles == ("converged",)
    assert "the operator is killed after" in finding.description
    with pytest.raises(AssertionError, match="configmaps/corner-b is not as in the undisturbed run"):
        explored.check()


def test_invalid_input_is_reported() -> None:
    with pytest.raises(testing.ExplorationError, match='unknown deviation "crush"'):
        testing.explore(command=OPERATOR, scenario=STEPS, only=["crush"])
    with pytest.raises(TypeError, match="not both"):
        testing.explore("handlers.py", command=OPERATOR)


def test_command_prints_its_own_help() -> None:
    command = [sys.executable, "-m", "kopf", "explore", "--help"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--replay" in process.stdout


HANDLERS = """
import kopf

@kopf.on.create("shops")
def create_fn(**_):
    return "done"
"""

TESTS = f"""
import pytest

STEPS = {STEPS!r}

@pytest.mark.kopf_explore(
    "handlers.py", scenario=STEPS, only=["crash-before"], plans=1, jobs=2, settle="1s", limit="20s")
def test_faults(kopf_exploration):
    kopf_exploration.check()
    assert kopf_exploration.data["done"] == 1

def test_without_a_marker(kopf_exploration):
    pass
"""


def test_marker_gives_the_options(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(handlers=HANDLERS, test_it=TESTS)
    pytester.makeini(f"[pytest]\nkopf_manifests = {ZOO / 'crd.yaml'}\n")
    result = pytester.runpytest_subprocess("-p", "kopf._front.tools.pytest_plugin")
    result.assert_outcomes(passed=1, errors=1)
