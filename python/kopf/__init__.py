"""Kubernetes operators in Python.

.. code-block:: python

    import kopf

    @kopf.on.create("kopfexamples")
    def created(spec, logger, **_):
        logger.info(f"Created with {spec}")

Run it with ``kopf run handlers.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kopf._front import historical as _historical
from kopf._front.tools import versions as _versions

_versions.check_coexistence(__path__[0])
_historical.install()

from kopf import on  # noqa: E402
from kopf._front.declare import lifecycles  # noqa: E402
from kopf._front.objects.bodies import (  # noqa: E402
    Annotations,
    Body,
    BodyEssence,
    Labels,
    Meta,
    ObjectReference,
    OwnerReference,
    RawBody,
    RawEvent,
    RawEventType,
    Spec,
    Status,
    build_object_reference,
    build_owner_reference,
)
from kopf._front.declare.callbacks import all_, any_, none_, not_  # noqa: E402
from kopf._front.objects.causes import Logger, Reason  # noqa: E402
from kopf._front.objects.conditions import Conditions as Conditions  # noqa: E402
from kopf._front.objects.dicts import FieldPath, FieldSpec  # noqa: E402
from kopf._front.objects.diffs import Diff, DiffItem, DiffOperation  # noqa: E402
from kopf._front.objects.ephemera import Index, Memo, Store  # noqa: E402
from kopf._front.objects.errors import (  # noqa: E402
    AdmissionError,
    ApplyError as ApplyError,
    ErrorsMode,
    FieldConflict as FieldConflict,
    HandlerRetriesError,
    HandlerTimeoutError,
    LoginError,
    PermanentError,
    TemporaryError,
)
from kopf._front.objects.eventing import event, exception, info, warn  # noqa: E402
from kopf._front.declare.filters import ABSENT, PRESENT  # noqa: E402
from kopf._front.objects.hierarchies import (  # noqa: E402
    adjust_namespace,
    adopt,
    append_owner_reference,
    harmonize_naming,
    label,
    remove_owner_reference,
)
from kopf._front.objects.ids import HandlerId  # noqa: E402
from kopf._front.declare.lifecycles import get_default_lifecycle, set_default_lifecycle  # noqa: E402
from kopf._front.objects.patches import Patch, PatchFn  # noqa: E402
from kopf._front.state.piggybacking import (  # noqa: E402
    login_via_async_client,
    login_via_client,
    login_via_pykube,
    login_with_kubeconfig,
    login_with_service_account,
)
from kopf._front.objects.references import EVERYTHING, Resource  # noqa: E402
from kopf._front.declare.registries import (  # noqa: E402
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)
from kopf._front.objects.reviews import (  # noqa: E402
    Headers,
    Operation,
    SSLPeer,
    UserInfo,
    WebhookClientConfig,
    WebhookClientConfigService,
    WebhookFn,
    WebhookServerProtocol,
)
from kopf._front.objects.stoppers import (  # noqa: E402
    AsyncDaemonStopperChecker,
    DaemonStopped,
    DaemonStoppingReason,
    SyncDaemonStopperChecker,
)
from kopf._front.tools.versions import (  # noqa: E402
    commit_id as __commit_id__,
    version as __version__,
    version_tuple as __version_tuple__,
)
from kopf.on import daemon, index, register, subhandler, timer  # noqa: E402

if TYPE_CHECKING:
    from kopf._front.objects.children import apply_child as apply_child
    from kopf._front.objects.children import AppliedChild as AppliedChild
    from kopf._front.objects.children import children as children
    from kopf._front.objects.triggers import Requeue as Requeue
    from kopf._front.objects.triggers import Trigger as Trigger
    from kopf._front.objects.triggers import Triggers as Triggers
    from kopf._front.state.configuration import OperatorSettings
    from kopf._front.state.credentials import AiohttpSession, ConnectionInfo
    from kopf._front.state.diffbase import (
        AnnotationsDiffBaseStorage,
        DiffBaseStorage,
        MultiDiffBaseStorage,
        StatusDiffBaseStorage,
    )
    from kopf._front.bridge.execution import execute
    from kopf._front.bridge.loggers import LocalObjectLogger, LogFormat, ObjectLogger, configure
    from kopf._front.state.progress import (
        AnnotationsProgressStorage,
        MultiProgressStorage,
        ProgressRecord,
        ProgressStorage,
        SmartProgressStorage,
        StatusProgressStorage,
    )
    from kopf._front.bridge.running import operator, run, run_tasks, spawn_tasks
    from kopf._front.declare.schemas import PrinterColumn as PrinterColumn
    from kopf._front.declare.schemas import crd as crd
    from kopf._front.serving.webhooks import (
        WebhookAutoServer,
        WebhookAutoTunnel,
        WebhookDockerDesktopServer,
        WebhookK3dServer,
        WebhookMinikubeServer,
        WebhookNgrokTunnel,
        WebhookServer,
    )

    __engine__: str

# Names that are imported on first use, because they need the native module or slow imports.
_LAZY = {
    name: module
    for module, names in {
        "objects.children": "AppliedChild apply_child children",
        "objects.triggers": "Requeue Trigger Triggers",
        "state.configuration": "OperatorSettings",
        "state.credentials": "AiohttpSession ConnectionInfo",
        "state.diffbase": "AnnotationsDiffBaseStorage DiffBaseStorage MultiDiffBaseStorage StatusDiffBaseStorage",
        "state.progress": "AnnotationsProgressStorage MultiProgressStorage ProgressRecord ProgressStorage SmartProgressStorage StatusProgressStorage",
        "declare.schemas": "PrinterColumn crd",
        "bridge.execution": "execute",
        "bridge.loggers": "configure LogFormat ObjectLogger LocalObjectLogger",
        "bridge.running": "operator run run_tasks spawn_tasks",
        "serving.webhooks": "WebhookServer WebhookK3dServer WebhookMinikubeServer WebhookDockerDesktopServer WebhookNgrokTunnel WebhookAutoServer WebhookAutoTunnel",
    }.items()
    for name in names.split()
}

# Names of earlier releases that tutorials still use, with their replacements.
_REMOVED = {
    "HandlerFatalError": "kopf.PermanentError",
    "HandlerRetryError": "kopf.TemporaryError",
    "apply_child_sync": "kopf.apply_child, which works in all functions",
    "create_tasks": "kopf.spawn_tasks",
    "login": "kopf.login_via_client or kopf.login_via_pykube",
    "BaseRegistry": "kopf.OperatorRegistry",
    "GlobalRegistry": "kopf.OperatorRegistry",
    "SimpleRegistry": "kopf.OperatorRegistry",
    "WebhookInlineTunnel": "kopf.WebhookAutoTunnel",
}

__all__ = [
    "on", "lifecycles", "subhandler", "register", "execute", "daemon", "timer", "index",
    "configure", "LogFormat",
    "login_via_pykube", "login_via_client", "login_via_async_client",
    "login_with_kubeconfig", "login_with_service_account",
    "LoginError", "ConnectionInfo", "AiohttpSession",
    "event", "info", "warn", "exception",
    "spawn_tasks", "run_tasks", "operator", "run",
    "adopt", "label",
    "not_", "all_", "any_", "none_",
    "get_default_lifecycle", "set_default_lifecycle",
    "build_object_reference", "build_owner_reference",
    "append_owner_reference", "remove_owner_reference",
    "ErrorsMode", "AdmissionError",
    "WebhookClientConfigService", "WebhookClientConfig", "Operation", "UserInfo", "Headers",
    "SSLPeer", "WebhookFn", "WebhookServerProtocol",
    "WebhookServer", "WebhookK3dServer", "WebhookMinikubeServer", "WebhookDockerDesktopServer",
    "WebhookNgrokTunnel", "WebhookAutoServer", "WebhookAutoTunnel",
    "PermanentError", "TemporaryError", "HandlerTimeoutError", "HandlerRetriesError",
    "OperatorRegistry", "get_default_registry", "set_default_registry",
    "PRESENT", "ABSENT",
    "OperatorSettings",
    "DiffBaseStorage", "AnnotationsDiffBaseStorage", "StatusDiffBaseStorage",
    "MultiDiffBaseStorage",
    "ProgressRecord", "ProgressStorage", "AnnotationsProgressStorage", "StatusProgressStorage",
    "MultiProgressStorage", "SmartProgressStorage",
    "RawEventType", "RawEvent", "RawBody", "Status", "Spec", "Meta", "Body", "BodyEssence",
    "Labels", "Annotations", "ObjectReference", "OwnerReference",
    "Memo", "Index", "Store",
    "Logger", "ObjectLogger", "LocalObjectLogger",
    "FieldSpec", "FieldPath",
    "Diff", "DiffItem", "DiffOperation",
    "HandlerId", "Reason", "Patch", "PatchFn",
    "DaemonStopped", "DaemonStoppingReason",
    "SyncDaemonStopperChecker", "AsyncDaemonStopperChecker",
    "Resource", "EVERYTHING",
]


if not TYPE_CHECKING:  # Type checkers must report unknown names.

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            import importlib

            value = getattr(importlib.import_module(f"kopf._front.{_LAZY[name]}"), name)
            globals()[name] = value
            return value
        if name == "__engine__":
            from kopf._front.tools.versions import get_engine_version

            return get_engine_version()
        if name in _historical.ROOTS:
            import importlib

            return importlib.import_module(f"kopf.{name}")
        if name in _REMOVED:
            raise AttributeError(f"kopf.{name} was removed: use {_REMOVED[name]}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__engine__"})
