"""Settings of an operator. Startup handlers usually change them.

All durations are in seconds.
"""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kopf._front.objects import reviews
from kopf._front.state import diffbase, progress
from kopf._front.state.arrays import SelectorMapping

if TYPE_CHECKING:
    import concurrent.futures

FIBONACCI = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610)

#: The similarity, from 0 to 1, at which an unknown name counts as misspelt.
TYPO = 0.8


class SettingsGroup:
    """The base class of settings: assignments of unknown names are noticed.

    Misspelt names raise :class:`AttributeError` with the name that was meant. Names without a similar
    one are stored with a warning, because operators may keep values of their own in the settings.
    """

    _group: ClassVar[str] = ""
    #: Names of other releases, which could be taken for misspelt ones.
    _former: ClassVar[frozenset[str]] = frozenset()
    #: Names that were removed, with the reason.
    _removed: ClassVar[dict[str, str]] = {}

    if not TYPE_CHECKING:  # Type checkers must report unknown names.

        def __setattr__(self, name: str, value: Any) -> None:
            if name in self._removed:
                text = f"settings.{self._path(name)} has no effect any more: {self._removed[name]}"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                return
            if name not in vars(self) and not name.startswith("_") and name not in self._known():
                self._notice(name)
            super().__setattr__(name, value)

    def _notice(self, name: str) -> None:
        """Raises an error if the name is similar to a known one; otherwise, warns."""
        import difflib

        known = [] if name in self._former else sorted(self._known())
        for close in difflib.get_close_matches(name, known, n=1, cutoff=TYPO):
            raise AttributeError(
                f"unknown setting settings.{self._path(name)}: did you mean settings.{self._path(close)}?"
            )
        warnings.warn(
            f"unknown setting settings.{self._path(name)} has no effect: see `help(kopf.OperatorSettings)` "
            f"for the known ones",
            stacklevel=3,
        )

    @classmethod
    def _path(cls, name: str) -> str:
        return f"{cls._group}.{name}" if cls._group else name

    @classmethod
    def _known(cls) -> set[str]:
        """Returns the public names of this class and of its bases, including declared attributes."""
        return {
            name
            for base in cls.__mro__[:-1]
            for name in (*vars(base), *base.__annotations__)
            if not name.startswith("_")
        }


@dataclasses.dataclass
class ProcessSettings(SettingsGroup):
    """The process of the operator."""

    _group = "process"
    _removed = {"honest_liveness": "an unavailable API server never fails the liveness probe"}

    ultimate_exiting_timeout: float | None = 10 * 60
    """The time after the beginning of the exit at which the process is killed; ``None``: never."""
    metrics: bool = dataclasses.field(default=True, repr=False)
    """Collects metrics, which are served at ``--metrics`` or at ``/metrics`` of ``--liveness``."""


@dataclasses.dataclass
class PostingSettings(SettingsGroup):
    """Kubernetes events."""

    _group = "posting"

    enabled: bool = True
    """Enables Kubernetes events."""
    loggers: bool = True
    """Posts log records of objects as Kubernetes events."""
    level: int = logging.INFO
    """The minimum level of log records, ``kopf.info()``, ``kopf.warn()``, ``kopf.exception()``."""
    default_backoffs: float | Iterable[float] = FIBONACCI[:8]
    """Delays of retries of ``kopf.event()`` and the other functions for events."""
    logging_backoffs: float | Iterable[float] = FIBONACCI[:5]
    """Delays of retries for log records."""
    worker_limit: int | None = None
    """Accepted without effect: the engine posts events without workers."""
    idle_timeout: float = 1.0
    """Accepted without effect: the engine posts events without workers."""
    reporting_component: str = "kopf"
    """The ``reportingComponent`` of Kubernetes events."""
    reporting_instance: str = "dev"
    """The ``reportingInstance`` of Kubernetes events."""
    event_name_prefix: str = "kopf-event-"
    """The prefix of names of Kubernetes events."""
    queue_limit: int = dataclasses.field(default=1000, repr=False)
    """The maximum number of different events that wait to be posted; others are dropped."""


@dataclasses.dataclass
class PeeringSettings(SettingsGroup):
    """Peering of several instances of the operator."""

    _group = "peering"

    name: str = "default"
    """The name of the peering object."""
    stealth: bool = False
    """Suppresses log messages about keep-alives."""
    priority: int = 0
    """The priority of this operator. Operators of a lower priority pause."""
    lifetime: int = 60
    """The lifetime of each keep-alive."""
    mandatory: bool = False
    """Pauses the operator while there is no peering object."""
    standalone: bool = False
    """Disables peering."""
    clusterwide: bool = False
    """Uses the cluster-wide peering instead of the namespaced one."""
    sharing: bool = dataclasses.field(default=False, repr=False)
    """Operators of the same priority divide the objects; implied by ``watching.shard_selectors``."""

    @property
    def namespaced(self) -> bool:
        """The opposite of ``clusterwide``."""
        return not self.clusterwide

    @namespaced.setter
    def namespaced(self, value: bool) -> None:
        self.clusterwide = not value


@dataclasses.dataclass
class LeadingSettings(SettingsGroup):
    """Several replicas of one operator."""

    _group = "leading"

    enabled: bool = False
    """Handles objects only while this replica holds a Lease."""
    name: str = ""
    """The name of the Lease, shared by the replicas of this operator only. Required."""
    namespace: str | None = None
    """The namespace of the Lease; ``None``: that of the credentials."""
    lease_duration: float = 15.0
    """The time without renewals after which other replicas take over; whole seconds."""
    renew_deadline: float = 10.0
    """The time of failing renewals after which the holder stops handling."""
    retry_period: float = 2.0
    """The interval of renewals and of attempts to acquire the Lease."""
    shards: int | Literal["auto"] | None = None
    """Divides the objects among all replicas; ``None``: the holder handles all of them."""
    sharded_indices: Sequence[str] = ()
    """The ids of index handlers that index only the objects of this replica."""
    certificate_secret: str | None = "auto"
    """The Secret with the generated certificate of the webhook servers of all replicas; ``"auto"``:
    ``NAME-webhook-certificate``; ``None``: every replica has its own certificate."""


@dataclasses.dataclass
class WatchingSettings(SettingsGroup):
    """Watch streams."""

    _group = "watching"
    _former = frozenset({"retry_delay", "session_timeout", "stream_timeout"})

    server_timeout: float | None = None
    """The duration of a watch request, limited by the server; ``None``: the server's default."""
    client_timeout: float | None = None
    """The duration of a watch request, limited by the client; ``None``: unlimited."""
    connect_timeout: float | None = None
    """The timeout of connecting; ``None``: that of ``networking``."""
    reconnect_backoff: float = 0.1
    """The pause before the listing is repeated."""
    inactivity_timeout: float | None = 70.0
    """The time without data after which a stream is restarted; ``None``: never."""
    chunk_size: int | None = None
    """The number of objects per page of listings; ``None``: 500."""
    initial_streaming: bool = False
    """Streams the initial objects with the watch request instead of listing them."""
    label_selectors: SelectorMapping[str] = dataclasses.field(default_factory=SelectorMapping)
    """Label selectors of streams by resources."""
    field_selectors: SelectorMapping[str] = dataclasses.field(default_factory=SelectorMapping)
    """Field selectors of streams by resources."""
    shard_selectors: SelectorMapping[str] = dataclasses.field(default_factory=SelectorMapping)
    """Shard selectors of streams by resources."""


@dataclasses.dataclass
class QueueingSettings(SettingsGroup):
    """Queues of objects."""

    _group = "queueing"

    worker_limit: int | None = None
    """The maximum number of objects processed at once per resource; ``None``: unlimited."""
    idle_timeout: float = 5.0
    """The time after which a worker without events exits."""
    exit_timeout: float = 2.0
    """The time for workers to finish when a stream ends."""
    error_delays: Iterable[float] = FIBONACCI
    """Delays after errors of the framework with an object. The last one repeats."""
    _batch_window: float = 0.1
    max_events: int = dataclasses.field(default=1000, repr=False)
    """The maximum number of queued watch events, per object and per stream."""
    max_bytes: int = dataclasses.field(default=64 * 1024 * 1024, repr=False)
    """The maximum size of the queued watch events of a stream."""

    @property
    def batch_window(self) -> float:
        """No effect: events are not batched."""
        _warn_batch_window()
        return self._batch_window

    @batch_window.setter
    def batch_window(self, value: float) -> None:
        _warn_batch_window()
        self._batch_window = value


@dataclasses.dataclass
class ScanningSettings(SettingsGroup):
    """Observation of the cluster."""

    _group = "scanning"

    disabled: bool = False
    """Disables watching for new namespaces and custom resources."""
    install_crds: bool = dataclasses.field(default=False, repr=False)
    """Creates or updates the CRDs of models (`@kopf.crd`) before resources are discovered."""
    review_permissions: bool = dataclasses.field(default=False, repr=False)
    """Logs all missing permissions on startup; `kopf run` enables it."""


@dataclasses.dataclass
class AdmissionSettings(SettingsGroup):
    """Admission webhooks."""

    _group = "admission"

    server: reviews.WebhookServerProtocol | None = None
    """The webhook server or tunnel."""
    managed: str | None = None
    """The name of the webhook configurations to maintain; ``None``: they are not maintained."""
    loopback: bool = dataclasses.field(default=False, repr=False)
    """Webhook servers without ``addr`` listen on ``127.0.0.1`` only; set by ``--sandbox``."""


def _make_executor() -> concurrent.futures.Executor:
    import concurrent.futures

    executor = concurrent.futures.ThreadPoolExecutor()
    vars(executor)["_kopf_default"] = True
    return executor


@dataclasses.dataclass
class ExecutionSettings(SettingsGroup):
    """Execution of handlers."""

    _group = "execution"

    default_backoff: float = 60
    """The delay of retries after arbitrary errors."""
    executor: concurrent.futures.Executor = dataclasses.field(default_factory=_make_executor)
    """The executor of sync handlers."""
    _max_workers: int | None = None

    @property
    def max_workers(self) -> int | None:
        """The maximum number of sync handlers that run at once; ``None``: by the executor."""
        return self._max_workers

    @max_workers.setter
    def max_workers(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"Can't set thread pool limit lower than 1, got {value}: leave it out for the default.")
        if not hasattr(self.executor, "_max_workers"):
            raise TypeError("Current executor does not support `max_workers`: limit the threads of the "
                            "executor itself.")
        self.executor._max_workers = value
        self._max_workers = value

    def has_own_executor(self) -> bool:
        """Returns ``True`` if the executor is not the default one."""
        return not getattr(self.executor, "_kopf_default", False)


@dataclasses.dataclass
class BackgroundSettings(SettingsGroup):
    """Daemons and timers."""

    _group = "background"

    cancellation_polling: float = 60
    """The interval of checks for the exit of stopped daemons."""
    instant_exit_timeout: float | None = None
    """The time to wait for daemons to exit immediately after they are stopped."""
    instant_exit_zero_time_cycles: int | None = 10
    """The number of loop cycles to wait, if the time is not set."""


@dataclasses.dataclass
class NetworkingSettings(SettingsGroup):
    """API requests."""

    _group = "networking"

    request_timeout: float | None = 5 * 60
    """The timeout of a request."""
    connect_timeout: float | None = None
    """The timeout of connecting."""
    error_backoffs: float | Iterable[float] = FIBONACCI[:8]
    """Delays of retries. The number of retries is the number of delays."""
    enforce_retry_after: bool = False
    """Replaces the delay with the server's ``Retry-After`` instead of prolonging it."""
    trust_env: bool = False
    """Uses the proxy variables of the environment."""
    concurrency: int = dataclasses.field(default=96, repr=False)
    """The maximum number of concurrent requests for the handling of objects."""
    http2: bool = dataclasses.field(default=False, repr=False)
    """Sends requests of the framework by HTTP/2 if the server offers it."""


@dataclasses.dataclass
class PersistenceSettings(SettingsGroup):
    """The state stored in objects."""

    _group = "persistence"

    finalizer: str = "kopf.zalando.org/KopfFinalizerMarker"
    """The finalizer of objects whose deletion is handled."""
    progress_storage: progress.ProgressStorage = dataclasses.field(
        default_factory=progress.SmartProgressStorage)
    """The storage of progress records of handlers."""
    diffbase_storage: diffbase.DiffBaseStorage = dataclasses.field(
        default_factory=diffbase.AnnotationsDiffBaseStorage)
    """The storage of the last handled essence."""
    consistency_timeout: float = 5.0
    """The maximum time to wait for own changes on the watch stream; ``0``: no waiting."""
    touching: bool = False
    """Wakes up delayed handlers by changing the object, as the original does.

    By default, they are woken up in memory, which saves a request and an event for each.
    """
    results_first: bool = False
    """Writes the status before the annotations if they are separate requests."""
    field_manager: str | None = None
    """The field manager of applied children; by default, ``posting.reporting_component``."""
    lost_updates: bool = False
    """Accepts the loss of changes for handlers that have finished while others still run.

    By default, an update with the missed changes follows. The original loses them.
    """
    digest_secrets: bool = dataclasses.field(default=False, repr=False)
    """Stores digests of the values of Secrets in the diff-base instead of the values.

    ``old``, ``new`` and ``diff`` then contain digests; ``body`` has the values. By default, the
    values are stored, as in the original.
    """
    digest_key: str | bytes | None = dataclasses.field(default=None, repr=False)
    """A secret key for these digests, shared by all replicas; implies ``digest_secrets``.

    By default, digests are keyed by the uid of the Secret, so that guessed values can be verified.
    """


@dataclasses.dataclass
class OperatorSettings(SettingsGroup):
    """All settings of an operator, in groups: ``settings.posting.level = logging.WARNING``.

    Durations are in seconds. Misspelt names raise :class:`AttributeError`; unknown names without a
    similar one are accepted with a warning and have no effect. The values of startup handlers count;
    later changes have no effect, except for those of ``posting`` and ``execution``.

    ::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.posting.enabled = False
            settings.queueing.worker_limit = 10
    """

    _former = frozenset({"logging"})

    process: ProcessSettings = dataclasses.field(default_factory=ProcessSettings)
    posting: PostingSettings = dataclasses.field(default_factory=PostingSettings)
    peering: PeeringSettings = dataclasses.field(default_factory=PeeringSettings)
    watching: WatchingSettings = dataclasses.field(default_factory=WatchingSettings)
    queueing: QueueingSettings = dataclasses.field(default_factory=QueueingSettings)
    scanning: ScanningSettings = dataclasses.field(default_factory=ScanningSettings)
    admission: AdmissionSettings = dataclasses.field(default_factory=AdmissionSettings)
    execution: ExecutionSettings = dataclasses.field(default_factory=ExecutionSettings)
    background: BackgroundSettings = dataclasses.field(default_factory=BackgroundSettings)
    networking: NetworkingSettings = dataclasses.field(default_factory=NetworkingSettings)
    persistence: PersistenceSettings = dataclasses.field(default_factory=PersistenceSettings)
    # Not an argument of the constructor, which has the arguments of the original.
    leading: LeadingSettings = dataclasses.field(default_factory=LeadingSettings, init=False)

    @property
    def batching(self) -> QueueingSettings:
        """The former name of ``queueing``."""
        warnings.warn("Batching settings are now queueing settings. Please rename "
                      "`settings.batching` -> `settings.queueing`",
                      DeprecationWarning, stacklevel=2)
        return self.queueing


def _warn_batch_window() -> None:
    warnings.warn("Time-based event batching was removed. Please stop configuring it.",
                  DeprecationWarning, stacklevel=3)
