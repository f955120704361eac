"""The public API is that of the recorded release of the original, plus the listed additions."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import unittest.mock
from typing import Any

import pytest

import kopf

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import surface  # noqa: E402

RECORDED = json.loads(pathlib.Path(__file__).with_name("surface.json").read_text())

# Names that only this package has.
ADDITIONS = {
    "__engine__", "crd", "PrinterColumn", "Conditions", "AppliedChild", "ApplyError", "FieldConflict",
    "apply_child", "children", "Requeue", "Trigger", "Triggers",
}

# Members that only this package has, or that have more arguments here.
DIFFERENT_MEMBERS = {
    "StatusProgressStorage": {"name"},
    "StatusDiffBaseStorage": {"name"},
    "Patch": {"conditions"},
    "WebhookAutoServer": {"guess_host"},
    "WebhookAutoTunnel": {"guess_host"},
}

# Arguments of decorators that only this package has.
ADDED_OPTIONS = {
    f"on.{name}": ["kw owns=None"] for name in ("resume", "create", "update", "delete", "field")
}

# Fields that only this package has.
ADDED_FIELDS = {"OperatorSettings": {"leading"}}

# Defaults that differ deliberately: log records of objects are posted, as documented.
DIFFERENT_SETTINGS = {"posting.loggers": "True"}

# Settings that only this package has.
ADDED_SETTINGS = {
    "persistence.touching": "False",
    "persistence.results_first": "False",
    "persistence.lost_updates": "False",
    "admission.loopback": "False",
    "persistence.digest_secrets": "False",
    "persistence.digest_key": "None",
    "scanning.install_crds": "False",
    "scanning.review_permissions": "False",
    "persistence.field_manager": "None",
    "process.metrics": "True",
    "leading.enabled": "False",
    "leading.name": "''",
    "leading.namespace": "None",
    "leading.lease_duration": "15.0",
    "leading.renew_deadline": "10.0",
    "leading.retry_period": "2.0",
    "leading.shards": "None",
    "leading.sharded_indices": "()",
    "leading.certificate_secret": "'auto'",
    "networking.concurrency": "96",
    "networking.http2": "False",
    "peering.sharing": "False",
    "posting.queue_limit": "1000",
    "queueing.max_bytes": "67108864",
    "queueing.max_events": "1000",
}

# Parameters that only this package has.
ADDED_PARAMETERS = {
    "run": ["kw metrics_endpoint=None", "kw handle_signals=None"],
    "operator": ["kw metrics_endpoint=None", "kw handle_signals=None"],
    "spawn_tasks": ["kw metrics_endpoint=None", "kw handle_signals=None"],
}

# Webhook servers, which have an option that only this package has.
SERVERS = {
    "WebhookServer", "WebhookAutoServer", "WebhookK3dServer", "WebhookMinikubeServer",
    "WebhookDockerDesktopServer",
}


def describe(name: str) -> dict[str, Any]:
    value: Any = kopf
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except ModuleNotFoundError as e:
            pytest.skip(f"not built: {e.name}")
    return surface.describe_value(value)


def test_names_are_the_same() -> None:
    recorded = {name for name in RECORDED["names"] if "." not in name}
    recorded -= {"harmonize_naming", "adjust_namespace"}
    assert set(kopf.__all__) == recorded


def test_version_is_that_of_the_original() -> None:
    assert kopf.__version__ == RECORDED["version"]
    assert ".".join(map(str, kopf.__version_tuple__)) == RECORDED["version"]
    assert isinstance(kopf.__engine__, str)


@pytest.mark.parametrize("name", sorted(RECORDED["names"]))
def test_name_has_the_same_description(name: str) -> None:
    expected, actual = RECORDED["names"][name], describe(name)
    for member in DIFFERENT_MEMBERS.get(name, ()):
        assert hasattr(getattr(kopf, name), member)
        actual["members"].pop(member, None)
        expected["members"].pop(member, None)
    for option in ADDED_OPTIONS.get(name, ()):
        actual["signature"].remove(option)
    for parameter in ADDED_PARAMETERS.get(name, ()):
        actual["signature"].remove(parameter)
    if name in SERVERS:
        actual["init"].remove("kw service=None")
    if name in ADDED_FIELDS:
        actual["fields"] = [one for one in actual["fields"] if one not in ADDED_FIELDS[name]]
    assert json.loads(json.dumps(actual)) == expected


def test_settings_have_the_same_names_and_defaults() -> None:
    expected = {**RECORDED["settings"], **DIFFERENT_SETTINGS, **ADDED_SETTINGS}
    assert surface.describe_settings() == expected


def test_additions_are_listed() -> None:
    recorded = {name.partition(".")[0] for name in RECORDED["names"]}
    public = {name for name in dir(kopf) if not name.startswith("_")} - recorded
    private = {"annotations", "Any", "TYPE_CHECKING", "cli", "testing"}
    assert public <= private | ADDITIONS
    assert all(hasattr(kopf, name) for name in ADDITIONS)


@pytest.mark.parametrize("name, successor", [
    ("HandlerFatalError", "PermanentError"),
    ("HandlerRetryError", "TemporaryError"),
    ("create_tasks", "spawn_tasks"),
])
def test_removed_name_raises_with_its_successor(name: str, successor: str) -> None:
    with pytest.raises(AttributeError, match=f"{name} was removed: use kopf.{successor}"):
        getattr(kopf, name)


def test_removed_decorator_raises_with_its_successor() -> None:
    with pytest.raises(AttributeError, match="use kopf.subhandler"):
        kopf.on.this  # noqa: B018


def test_unknown_name_raises() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'whatever'"):
        kopf.whatever  # noqa: B018
    with pytest.raises(AttributeError):
        kopf.structs  # noqa: B018


@pytest.mark.parametrize("name", ["info", "event", "adopt", "OperatorSettings", "login_via_client"])
def test_name_can_be_patched(name: str) -> None:
    before = getattr(kopf, name)
    with unittest.mock.patch(f"kopf.{name}") as mocked:
        assert getattr(kopf, name) is mocked
    assert getattr(kopf, name) is before


def test_import_is_light() -> None:
    """Slow packages are not imported until they are used."""
    heavy = {"aiohttp", "asyncio", "click", "yaml", "pydantic", "ssl", "concurrent.futures"}
    code = "import sys, kopf; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy.isdisjoint(done.stdout.split())


def test_original_in_the_same_folder_is_detected(tmp_path: pathlib.Path) -> None:
    from kopf._front.tools import versions

    versions.check_coexistence(str(tmp_path))
    (tmp_path / "_cogs" / "aiokits").mkdir(parents=True)
    (tmp_path / "_cogs" / "aiokits" / "__init__.py").touch()
    with pytest.raises(ImportError) as error:
        versions.check_coexistence(str(tmp_path))
    assert "pip uninstall --yes kopf kopf-rs" in str(error.value)
    assert "pip install kopf-rs" in str(error.value)
