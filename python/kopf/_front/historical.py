"""Private import paths of the original, which public operators import.

One table serves both the import system, by a finder that creates the modules on import, and type
checkers, by stubs that ``python/stubs.py`` generates from it.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any, cast

#: The names of each module, by the module of this package that defines them.
EXPORTS: dict[str, dict[str, str]] = {
    "_cogs.configs.arrays": {
        "state.arrays": "SelectorKey SelectorMapping VT",
    },
    "_cogs.configs.configuration": {
        "state.configuration":
            "AdmissionSettings BackgroundSettings ExecutionSettings NetworkingSettings "
            "OperatorSettings PeeringSettings PersistenceSettings PostingSettings ProcessSettings "
            "QueueingSettings ScanningSettings WatchingSettings",
    },
    "_cogs.configs.conventions": {
        "state.conventions":
            "CollisionEvadingConvention StorageKeyFormingConvention StorageKeyMarkingConvention "
            "StorageStanzaCleaner",
    },
    "_cogs.configs.diffbase": {
        "state.diffbase":
            "AnnotationsDiffBaseStorage DiffBaseStorage MultiDiffBaseStorage "
            "StatusDiffBaseStorage",
    },
    "_cogs.configs.progress": {
        "state.progress":
            "AnnotationsProgressStorage MultiProgressStorage NoWriteStatusProgressStorage "
            "ProgressRecord ProgressStorage SmartProgressStorage StatusProgressStorage",
    },
    "_cogs.helpers.hostnames": {
        "tools.identities": "get_descriptive_hostname remove_useless_suffixes",
    },
    "_cogs.helpers.loaders": {
        "tools.loaders": "preload",
    },
    "_cogs.helpers.thirdparty": {
        "objects.thirdparty":
            "KubernetesModelAsync KubernetesModelSync PykubeObject V1ObjectMetaProtocol "
            "V1OwnerReferenceProtocol",
    },
    "_cogs.helpers.typedefs": {
        "objects.causes": "Logger",
    },
    "_cogs.helpers.versions": {
        "tools.versions": "commit_id version version_tuple",
    },
    "_cogs.structs.bodies": {
        "objects.bodies":
            "Annotations Body BodyEssence Labels Meta MetaEssence ObjectReference OwnerReference "
            "RawBody RawError RawEvent RawEventType RawInput RawInputType RawMeta Spec Status "
            "build_object_reference build_owner_reference",
    },
    "_cogs.structs.credentials": {
        "objects.errors": "AccessError LoginError",
        "state.credentials": "AiohttpSession ConnectionInfo KubeContext Vault VaultKey",
    },
    "_cogs.structs.dicts": {
        "objects.dicts":
            "FieldPath FieldSpec MappingView MutableMappingView ReplaceableMappingView cherrypick "
            "ensure parse_field remove resolve resolve_obj walk",
    },
    "_cogs.structs.diffs": {
        "objects.diffs":
            "Diff DiffItem DiffOperation DiffScope EMPTY diff diff_iter reduce reduce_iter",
    },
    "_cogs.structs.ephemera": {
        "objects.ephemera": "AnyMemo Index Memo Store",
    },
    "_cogs.structs.ids": {
        "objects.ids": "HandlerId",
    },
    "_cogs.structs.patches": {
        "objects.patches":
            "JSONPatchItem JSONPatchOp MetaPatch Patch PatchFn SpecPatch StatusPatch",
    },
    "_cogs.structs.references": {
        "objects.references":
            "CLUSTER_PEERINGS_K CLUSTER_PEERINGS_Z CRDS EVENTS EVENTS_K8S EVERYTHING "
            "K8S_GROUP_VERSION_PATTERN MUTATING_WEBHOOK Marker NAMESPACED_PEERINGS_K "
            "NAMESPACED_PEERINGS_Z NAMESPACES Namespace NamespaceName NamespacePattern Resource "
            "Selector SelectorFn VALIDATING_WEBHOOK match_namespace select_specific_namespaces",
    },
    "_cogs.structs.reviews": {
        "objects.reviews":
            "CreateOptions DeleteOptions Headers Operation Request RequestKind RequestPayload "
            "RequestResource Response ResponsePayload ResponseStatus SSLPeer UpdateOptions "
            "UserInfo WebhookClientConfig WebhookClientConfigService WebhookFn "
            "WebhookServerProtocol",
    },
    "_core.actions.execution": {
        "declare.handlers": "Handler",
        "declare.lifecycles": "LifeCycleFn State",
        "declare.registries": "handler_var",
        "objects.causes": "Cause Logger cause_var",
        "objects.errors":
            "ErrorsMode HandlerChildrenRetry HandlerRetriesError HandlerTimeoutError Outcome "
            "PermanentError TemporaryError",
    },
    "_core.actions.invocation": {
        "bridge.invoking": "invoke is_async_fn",
        "objects.causes": "Kwargable context",
    },
    "_core.actions.lifecycles": {
        "declare.lifecycles":
            "all_at_once asap get_default_lifecycle one_by_one randomized set_default_lifecycle "
            "shuffled",
    },
    "_core.actions.loggers": {
        "bridge.loggers":
            "LocalObjectLogger LogFormat ObjectFormatter ObjectJsonFormatter ObjectLogger "
            "ObjectPrefixingJsonFormatter ObjectPrefixingTextFormatter ObjectTextFormatter "
            "TerseObjectLogger configure logger make_formatter",
        "objects.causes": "Logger",
    },
    "_core.engines.activities": {
        "objects.errors": "ActivityError",
    },
    "_core.engines.admission": {
        "objects.errors":
            "AdmissionError AmbiguousResourceError MissingDataError UnknownResourceError "
            "WebhookError",
        "serving.webhook_configs": "build_webhooks",
    },
    "_core.engines.indexing": {
        "objects.ephemera": "OperatorIndexer OperatorIndexers OperatorIndices",
    },
    "_core.engines.peering": {
        "tools.identities": "Identity detect_own_id",
    },
    "_core.engines.posting": {
        "objects.eventing": "event exception info warn",
    },
    "_core.intents.callbacks": {
        "declare.callbacks":
            "ActivityFn ChangingFn DaemonFn DelayFn IndexingFn MetaFilterFn SpawningFn TimerFn "
            "WatchingFn WebhookFn WhenFilterFn all_ any_ none_ not_",
    },
    "_core.intents.causes": {
        "objects.causes":
            "ALL_REASONS Activity ActivityCause BaseCause ChangingCause DaemonCause "
            "HANDLER_REASONS IndexingCause REACTOR_REASONS Reason ResourceCause SpawningCause "
            "TITLES WatchingCause WebhookCause WebhookType",
    },
    "_core.intents.filters": {
        "declare.filters": "ABSENT MetaFilter MetaFilterToken PRESENT ValueFilter",
    },
    "_core.intents.handlers": {
        "declare.handlers":
            "ActivityHandler ChangingHandler DaemonHandler IndexingHandler ResourceHandler "
            "SpawningHandler TimerHandler WatchingHandler WebhookHandler",
    },
    "_core.intents.piggybacking": {
        "state.piggybacking":
            "PRIORITY_OF_ASYNC_CLIENT PRIORITY_OF_CLIENT PRIORITY_OF_KUBECONFIG "
            "PRIORITY_OF_PYKUBE PRIORITY_OF_SERVICE_ACCOUNT has_async_client has_client "
            "has_kubeconfig has_pykube has_service_account has_sync_client login_via_async_client "
            "login_via_client login_via_pykube login_with_kubeconfig login_with_service_account",
    },
    "_core.intents.registries": {
        "declare.matching": "match prematch",
        "declare.registries":
            "ActivityRegistry ChangingRegistry GenericRegistry IndexingRegistry OperatorRegistry "
            "ResourceRegistry SmartOperatorRegistry SpawningRegistry WatchingRegistry "
            "WebhooksRegistry get_default_registry set_default_registry",
        "objects.ids": "generate_id get_callable_id",
    },
    "_core.intents.stoppers": {
        "objects.stoppers":
            "AsyncDaemonStopperChecker DaemonStopped DaemonStoppingReason "
            "SyncDaemonStopperChecker",
    },
    "_core.reactor.running": {
        "bridge.running": "operator run run_tasks spawn_tasks",
    },
    "_core.reactor.subhandling": {
        "bridge.execution": "execute",
        "declare.registries": "subregistry_var",
    },
    "_kits.hierarchies": {
        "objects.hierarchies":
            "K8sObject K8sObjects adjust_namespace adopt append_owner_reference harmonize_naming "
            "label remove_owner_reference",
    },
    "_kits.loops": {
        "bridge.loops": "proper_loop",
    },
    "_kits.runner": {
        "tools.runner": "KopfRunner",
    },
    "_kits.webhooks": {
        "serving.webhooks":
            "ClusterDetector WebhookAutoServer WebhookAutoTunnel WebhookDockerDesktopServer "
            "WebhookK3dServer WebhookMinikubeServer WebhookNgrokTunnel WebhookServer",
    },
}

#: Modules of the original whose work the engine does, with advice.
ABSENT: dict[str, str] = {
    "_cogs.aiokits":
        "the tasks of the operator run by the native engine. Use asyncio for own tasks.",
    "_cogs.clients":
        "API requests are made by the native engine. Use a client library for own requests (the "
        "default login configures `kubernetes`), kopf.event() for k8s-events, and "
        "kopf.ConnectionInfo for credentials and proxies.",
    "_cogs.helpers.aiohttpcaps":
        "API requests are made by the native engine. Use a client library for own requests.",
    "_cogs.structs.finalizers":
        "finalizers are added and removed by the native engine. Use "
        "settings.persistence.finalizer, and the option optional of @kopf.on.delete.",
    "_core.actions.application":
        "the changes are applied to objects by the native engine. Change objects by the kwarg "
        "patch.",
    "_core.actions.progression":
        "the progress of handlers is kept by the native engine. Use the kwargs retry, started "
        "and runtime, or kopf.ProgressStorage.",
    "_core.actions.throttlers":
        "failing objects are throttled by the native engine. Use "
        "settings.queueing.error_delays.",
    "_core.engines.daemons":
        "daemons and timers are run by the native engine. Use @kopf.daemon and @kopf.timer.",
    "_core.engines.probing":
        "the health endpoint is served by the native engine. Use @kopf.on.probe and the option "
        "liveness_endpoint.",
    "_core.reactor.inventory":
        "the memos of objects are kept by the native engine. Use the kwarg memo.",
    "_core.reactor.observation":
        "resources and namespaces are observed by the native engine. Use the options namespaces "
        "and clusterwide.",
    "_core.reactor.orchestration":
        "the watch streams are started and stopped by the native engine. Use the options "
        "namespaces and clusterwide.",
    "_core.reactor.processing":
        "events of objects are processed by the native engine. Use kopf.testing to run handlers "
        "in tests.",
    "_core.reactor.queueing":
        "events of objects are queued by the native engine. Use settings.queueing.",
    "_kits.webhacks": "webhooks are served by the native engine. Use kopf.WebhookServer.",
}

#: Names of modules in `EXPORTS` whose work the engine does, with advice.
ABSENT_NAMES: dict[str, tuple[str, str]] = {
    "_core.engines.posting": (
        "enqueue event_queue_loop_var event_queue_var poster settings_var K8sPoster",
        "k8s-events are posted by the native engine. Use kopf.event() and alike inside of handlers.",
    ),
}

ROOTS = ("_cogs", "_core", "_kits")


def packages() -> set[str]:
    """Returns the packages of all modules."""
    paths = [path.split(".") for path in (*EXPORTS, *ABSENT)]
    return {".".join(parts[:depth]) for parts in paths for depth in range(1, len(parts))}


class _Finder:
    """Creates the modules of the table."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(("kopf._cogs", "kopf._core", "kopf._kits")):
            return None
        name = fullname.removeprefix("kopf.")
        is_package = name in packages()
        if name not in EXPORTS and name not in ABSENT and not is_package:
            return None
        # `importlib.abc` is slow to import, and its classes are not required.
        return importlib.machinery.ModuleSpec(fullname, cast(Any, self), is_package=is_package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Returns `None`: the modules are ordinary ones."""

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__.removeprefix("kopf.")
        if name in ABSENT:
            raise ImportError(f"{module.__name__} does not exist here: {ABSENT[name]}")
        sources = dict(_sources(name))
        lost, advice = ABSENT_NAMES.get(name, ("", ""))

        def getter(attribute: str) -> Any:
            path = f"{module.__name__}.{attribute}"
            if attribute in sources:
                value = getattr(importlib.import_module(sources[attribute]), attribute)
                setattr(module, attribute, value)
                return value
            if attribute in lost.split():
                raise ImportError(f"{path} does not exist here: {advice}")
            # The original imports everything: submodules are accessible after `import kopf`.
            if not sources and not attribute.startswith("__"):
                try:
                    return importlib.import_module(path)
                except ModuleNotFoundError as e:
                    if e.name != path:
                        raise
            raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")

        module.__doc__ = "Private path of the original."
        vars(module).update(
            __getattr__=getter, __all__=sorted(sources), __dir__=lambda: sorted(sources)
        )


def _sources(name: str) -> Iterator[tuple[str, str]]:
    for module, names in EXPORTS.get(name, {}).items():
        for attribute in names.split():
            yield attribute, f"kopf._front.{module}"


def install() -> None:
    """Makes the modules importable.

    The finder is the first one: folders with stubs only are namespace packages for the others.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
