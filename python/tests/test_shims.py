"""Private paths of the original that public operators import."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys
import sysconfig

import pytest

import kopf

PATHS = """
_cogs.configs.configuration:OperatorSettings
_cogs.configs.diffbase:AnnotationsDiffBaseStorage
_cogs.configs.progress:SmartProgressStorage
_cogs.configs.conventions:StorageKeyFormingConvention
_cogs.helpers.typedefs:Logger
_cogs.helpers.versions:version
_cogs.structs.bodies:Body RawBody RawEvent RawEventType RawMeta Spec Meta Status build_object_reference
_cogs.structs.credentials:ConnectionInfo LoginError Vault
_cogs.structs.dicts:FieldSpec resolve ensure walk parse_field
_cogs.structs.diffs:Diff DiffItem DiffOperation diff
_cogs.structs.ephemera:Memo Index Store AnyMemo
_cogs.structs.ids:HandlerId
_cogs.structs.patches:Patch
_cogs.structs.references:Resource Selector EVERYTHING NamespaceName
_cogs.structs.reviews:UserInfo WebhookClientConfig
_core.actions.execution:Logger Outcome cause_var PermanentError TemporaryError ErrorsMode Handler
_core.actions.invocation:context
_core.actions.lifecycles:asap
_core.actions.loggers:Logger
_core.engines.admission:AdmissionError build_webhooks
_core.engines.indexing:OperatorIndexers OperatorIndices
_core.engines.peering:detect_own_id Identity
_core.engines.posting:event info warn exception
_core.intents.callbacks:ChangingFn DaemonFn not_ all_
_core.intents.causes:Reason ChangingCause Activity ResourceCause
_core.intents.filters:PRESENT ABSENT MetaFilter
_core.intents.handlers:TimerHandler ChangingHandler DaemonHandler WebhookHandler
_core.intents.piggybacking:has_kubeconfig login_via_client
_core.intents.registries:SmartOperatorRegistry OperatorRegistry ChangingRegistry generate_id
_core.intents.stoppers:DaemonStopped DaemonStoppingReason
_core.reactor.subhandling:subregistry_var
_kits.hierarchies:adopt K8sObject
_kits.loops:proper_loop
"""


@pytest.mark.parametrize("line", PATHS.split("\n")[1:-1])
def test_private_path_is_importable(line: str) -> None:
    path, _, names = line.partition(":")
    module = importlib.import_module(f"kopf.{path}")
    for name in names.split():
        assert getattr(module, name) is getattr(kopf, name, getattr(module, name))


def test_private_path_is_accessible_without_its_import() -> None:
    code = "import kopf; print(kopf._core.actions.execution.TemporaryError is kopf.TemporaryError)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    with pytest.raises(AttributeError, match="no attribute 'whatever'"):
        kopf._core.actions.whatever


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_ENABLE_SHARED"), reason="PyInstaller requires a shared libpython"
)
def test_private_paths_are_importable_in_frozen_programs(tmp_path: pathlib.Path) -> None:
    """PyInstaller finds no files for them, nor for modules that are imported by name."""
    program = tmp_path / "program.py"
    program.write_text("""
import importlib
import kopf
from kopf._core.actions.execution import cause_var
from kopf._front import historical

for path, sources in historical.EXPORTS.items():
    module = importlib.import_module(f"kopf.{path}")
    for name in " ".join(sources.values()).split():
        getattr(module, name)
print(cause_var.name, kopf.run.__name__)
""")
    hooks = pathlib.Path(kopf.__file__).parent / "_pyinstaller"
    subprocess.run(
        [sys.executable, "-m", "PyInstaller", "--log-level=ERROR", f"--additional-hooks-dir={hooks}",
         program],
        cwd=tmp_path, check=True,
    )
    frozen = [tmp_path / "dist" / "program" / "program"]
    done = subprocess.run(frozen, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "cause_var run"


@pytest.mark.parametrize("path", ["_cogs.clients.api", "_cogs.clients.errors", "_cogs.clients"])
def test_http_layer_is_missing_with_advice(path: str) -> None:
    with pytest.raises(ImportError, match="Use a client library for own requests"):
        importlib.import_module(f"kopf.{path}")


def test_queue_of_events_is_missing_with_advice() -> None:
    from kopf._core.engines import posting

    with pytest.raises(ImportError, match="Use kopf.event"):
        posting.event_queue_var
    with pytest.raises(AttributeError):
        posting.whatever


@pytest.mark.parametrize("name", ["structs", "toolkits", "reactor", "clients", "engines"])
def test_old_path_is_missing(name: str) -> None:
    with pytest.raises(ImportError):
        importlib.import_module(f"kopf.{name}")


def test_cause_set_through_the_shim_is_used() -> None:
    """Operators set the cause to call `adopt()` in their own threads."""
    code = """
import kopf
from kopf._core.actions.execution import cause_var
from kopf._core.actions.invocation import context
from kopf._core.intents.causes import ChangingCause, Reason

cause = ChangingCause(
    logger=None, indices={}, memo=None, resource=None, patch=kopf.Patch(),
    body=kopf.Body({'metadata': {'name': 'n', 'uid': 'u'}}), initial=False, reason=Reason.CREATE)
with context([(cause_var, cause)]):
    obj = {}
    kopf.adopt(obj)
print(obj['metadata']['ownerReferences'][0]['uid'])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "u"


@pytest.mark.parametrize("path", [
    "_core.actions.application", "_core.actions.progression", "_core.actions.throttlers",
    "_core.engines.daemons", "_core.engines.probing", "_core.reactor.inventory",
    "_core.reactor.observation", "_core.reactor.orchestration", "_core.reactor.processing",
    "_core.reactor.queueing", "_cogs.aiokits", "_cogs.helpers.aiohttpcaps",
    "_cogs.structs.finalizers", "_kits.webhacks",
])
def test_work_of_the_engine_is_missing_with_advice(path: str) -> None:
    with pytest.raises(ImportError, match=f"kopf.{path} does not exist here.*native engine. Use|Change"):
        importlib.import_module(f"kopf.{path}")
