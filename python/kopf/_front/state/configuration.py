"""Settings of an operator. Startup handlers usually change them.

All durations are in seconds.
"""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from kopf._front.objects import reviews
from kopf._front.state import diffbase, progress
from kopf._front.state.arrays import SelectorMapping

if TYPE_CHECKING:
    import concurrent.futures

FIBONACCI = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610)


@dataclasses.dataclass
class ProcessSettings:
    """The process of the operator."""

    ultimate_exiting_timeout: float | None = 10 * 60
    """The time after the beginning of the exit at which the process is killed; ``None``: never."""
    metrics: bool = dataclasses.field(default=True, repr=False)
    """Collects metrics, which are served at ``--metrics`` or at ``/metrics`` of ``--liveness``."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "honest_liveness":
            warnings.warn(
                "settings.process.honest_liveness has no effect any more: an unavailable API server never "
                "fails the liveness probe.",
                DeprecationWarning,
                stacklevel=2,
            )
            return
        super().__setattr__(name, value)


@dataclasses.dataclass
class PostingSettings:
    """Kubernetes events."""

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
    """The maximum number of objects whose events are posted at once; ``None``: unlimited."""
    idle_timeout: float = 1.0
    """The time after which a worker without events exits."""
    reporting_component: str = "kopf"
    """The ``reportingComponent`` of Kubernetes events."""
    reporting_instance: str = "dev"
    """The ``reportingInstance`` of Kubernetes events."""
    event_name_prefix: str = "kopf-event-"
    """The prefix of names of Kubernetes events."""


@dataclasses.dataclass
class PeeringSettings:
    """Peering of several instances of the operator."""

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

    @property
    def namespaced(self) -> bool:
        """The opposite of ``clusterwide``."""
        return not self.clusterwide

    @namespaced.setter
    def namespaced(self, value: bool) -> None:
        self.clusterwide = not value


@dataclasses.dataclass
class LeadingSettings:
    """Several replicas of one operator."""

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
class WatchingSettings:
    """Watch streams."""

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
    """The number of objects per page of listings; ``None``: all at once."""
    initial_streaming: bool = False
    """Streams the initial objects with the watch request instead of listing them."""
    label_selectors: SelectorMapping[str] = dataclasses.field(default_factory=SelectorMapping)
    """Label selectors of streams by resources."""
    field_selectors: SelectorMapping[str] = dataclasses.field(default_factory=SelectorMapping)
    """Field selectors of streams by resources."""
    shard_selectors: SelectorMapping[str] = dataclasses.field(default_factory=SelectorMapping)
    """Shard selectors of streams by resources."""


@dataclasses.dataclass
class QueueingSettings:
    """Queues of objects."""

    worker_limit: int | None = None
    """The maximum number of objects processed at once per resource; ``None``: unlimited."""
    idle_timeout: float = 5.0
    """The time after which a worker without events exits."""
    exit_timeout: float = 2.0
    """The time for workers to finish when a stream ends."""
    error_delays: Iterable[float] = FIBONACCI
    """Delays after errors of the framework with an object. The last one repeats."""
    _batch_window: float = 0.1

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
class ScanningSettings:
    """Observation of the cluster."""

    disabled: bool = False
    """Disables watching for new namespaces and custom resources."""
    install_crds: bool = dataclasses.field(default=False, repr=False)
    """Creates or updates the CRDs of models (`@kopf.crd`) before resources are discovered."""
    review_permissions: bool = dataclasses.field(default=False, repr=False)
    """Logs all missing permissions at the start; `kopf run` enables it."""


@dataclasses.dataclass
class AdmissionSettings:
    """Admission webhooks."""

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
class ExecutionSettings:
    """Execution of handlers."""

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
            raise ValueError("Can't set thread pool limit lower than 1.")
        if not hasattr(self.executor, "_max_workers"):
            raise TypeError("Current executor does not support `max_workers`.")
        self.executor._max_workers = value
        self._max_workers = value

    def has_own_executor(self) -> bool:
        """Returns ``True`` if the executor is not the default one."""
        return not getattr(self.executor, "_kopf_default", False)


@dataclasses.dataclass
class BackgroundSettings:
    """Daemons and timers."""

    cancellation_polling: float = 60
    """The interval of checks for the exit of stopped daemons."""
    instant_exit_timeout: float | None = None
    """The time to wait for daemons to exit immediately after they are stopped."""
    instant_exit_zero_time_cycles: int | None = 10
    """The number of loop cycles to wait, if the time is not set."""


@dataclasses.dataclass
class NetworkingSettings:
    """API requests."""

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


@dataclasses.dataclass
class PersistenceSettings:
    """The state stored in objects."""

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
class OperatorSettings:
    """All settings of an operator."""

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
