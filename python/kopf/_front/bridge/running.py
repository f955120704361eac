"""Running of operators: in their own process, or embedded into an application."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import copy
import logging
import os
import re
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from kopf._front.bridge import exits, fixing, flags, loggers, lowering, signals, tracing
from kopf._front.declare import lifecycles, schemas
from kopf._front.objects import current
from kopf._front.state import piggybacking
from kopf._front.state.configuration import OperatorSettings
from kopf._front.objects.causes import Activity
from kopf._front.objects.ephemera import Memo, OperatorIndexers
from kopf._front.objects.errors import ActivityError, LoginError, Outcome
from kopf._front.objects.ids import HandlerId
from kopf._front.declare.handlers import ActivityHandler, Handler, IndexingHandler
from kopf._front.declare.registries import OperatorRegistry, get_default_registry

if TYPE_CHECKING:
    from kopf._front.bridge.bridge import Bridge
    from kopf._kopf import Engine

__all__ = ["OperatorError", "operator", "run", "run_tasks", "spawn_tasks"]

logger = logging.getLogger("kopf._core.reactor.running")

#: Minimum interval between lookups of the effective levels of loggers, in seconds.
LEVELS_INTERVAL = 0.05

#: Minimum interval between comparisons of settings with those of the startup, in seconds.
SETTINGS_INTERVAL = 5.0

#: Time for which the exiting interpreter waits for operators in daemonic threads, in seconds.
EXIT_TIMEOUT = 10.0


#: The kind and the message of the engine's error, and the exception of a callback that caused it.
_End = tuple[str | None, str | None, BaseException | None]


class OperatorError(RuntimeError):
    """An error that ended the operator."""


def run(
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    lifecycle: Any | None = None,
    indexers: OperatorIndexers | None = None,
    registry: OperatorRegistry | None = None,
    settings: OperatorSettings | None = None,
    memories: object | None = None,
    insights: object | None = None,
    identity: str | None = None,
    standalone: bool | None = None,
    priority: int | None = None,
    peering_name: str | None = None,
    liveness_endpoint: str | None = None,
    metrics_endpoint: str | None = None,
    clusterwide: bool = False,
    namespaces: Collection[str | re.Pattern[str]] = (),
    namespace: str | re.Pattern[str] | None = None,
    stop_flag: flags.Flag | None = None,
    ready_flag: flags.Flag | None = None,
    vault: object | None = None,
    memo: object | None = None,
    handle_signals: bool | None = None,
    _command: Coroutine[None, None, None] | None = None,
) -> None:
    """Runs an operator until it is stopped, as ``kopf run`` does, in a program of your own.

    Raises the error that ended the operator. It sets up no logging: see :func:`kopf.configure`.

    Arguments:

    - ``loop``: the event loop; by default, a new one.
    - ``lifecycle``: the order of handlers, one of :mod:`kopf.lifecycles`; ``asap`` by default.
    - ``registry``: the handlers; by default, :func:`kopf.get_default_registry`.
    - ``settings``: the settings before startup handlers; by default, new ones.
    - ``identity``: the name of this operator among its peers; by default, generated.
    - ``standalone``: ``True`` ignores peers; by default, ``settings.peering.standalone``.
    - ``priority``: the priority among peers; by default, ``settings.peering.priority`` (0).
    - ``peering_name``: the name of the peering object, which must exist then; by default,
      ``settings.peering.name``, which need not exist.
    - ``liveness_endpoint``: where to serve probes, such as ``http://0.0.0.0:8080/healthz``; none by default.
    - ``metrics_endpoint``: where to serve metrics; by default, at ``/metrics`` of the liveness endpoint.
    - ``clusterwide``: ``True`` serves the whole cluster; ``False`` by default.
    - ``namespaces``: names and patterns of the namespaces to serve.
    - ``namespace``: deprecated; use ``namespaces``.
    - ``stop_flag``: an event or future of asyncio, threading or concurrent.futures that stops the operator.
    - ``ready_flag``: the same, set by the operator when it is ready.
    - ``memo``: the memo of the operator, of which those of objects are copies; a new
      :class:`kopf.Memo` by default.
    - ``handle_signals``: ``True`` replaces signal handlers of the application until the operator ends,
      ``False`` leaves all signals to it; by default, SIGINT, SIGTERM and SIGHUP stop the operator in the
      main thread, unless the application handles them.
    - ``indexers``: the containers of indices; for tests of the framework.
    - ``memories``, ``insights``, ``vault``: accepted for compatibility, without effect.

    Here, in a thread, stopped after a second::

        import threading

        def main() -> None:
            stop = threading.Event()
            threading.Timer(1, stop.set).start()
            kopf.run(clusterwide=True, stop_flag=stop)
    """
    running = operator(
        lifecycle=lifecycle, indexers=indexers, registry=registry, settings=settings,
        memories=memories, insights=insights, identity=identity, standalone=standalone,
        priority=priority, peering_name=peering_name, liveness_endpoint=liveness_endpoint,
        metrics_endpoint=metrics_endpoint,
        clusterwide=clusterwide, namespaces=namespaces, namespace=namespace,
        stop_flag=stop_flag, ready_flag=ready_flag, vault=vault, memo=memo,
        handle_signals=handle_signals, _command=_command,
    )
    try:
        if loop is not None:
            loop.run_until_complete(running)
        else:
            asyncio.run(running)
    except asyncio.CancelledError:
        raise OperatorError(
            "the task of the operator was cancelled by other code: cancel only your own tasks; to "
            "stop the operator, use stop_flag="
        ) from None


async def spawn_tasks(
    *,
    lifecycle: Any | None = None,
    indexers: OperatorIndexers | None = None,
    registry: OperatorRegistry | None = None,
    settings: OperatorSettings | None = None,
    memories: object | None = None,
    insights: object | None = None,
    identity: str | None = None,
    standalone: bool | None = None,
    priority: int | None = None,
    peering_name: str | None = None,
    liveness_endpoint: str | None = None,
    metrics_endpoint: str | None = None,
    clusterwide: bool = False,
    namespaces: Collection[str | re.Pattern[str]] = (),
    namespace: str | re.Pattern[str] | None = None,
    stop_flag: flags.Flag | None = None,
    ready_flag: flags.Flag | None = None,
    vault: object | None = None,
    memo: object | None = None,
    handle_signals: bool | None = None,
    _command: Coroutine[None, None, None] | None = None,
) -> Collection[asyncio.Task[Any]]:
    """Starts an operator in the current event loop, and returns its tasks, for :func:`kopf.run_tasks`.

    The arguments are those of :func:`kopf.run`, except ``loop``.

    ::

        async def main() -> None:
            tasks = await kopf.spawn_tasks(clusterwide=True)
            await kopf.run_tasks(tasks)
    """
    running = operator(
        lifecycle=lifecycle, indexers=indexers, registry=registry, settings=settings,
        memories=memories, insights=insights, identity=identity, standalone=standalone,
        priority=priority, peering_name=peering_name, liveness_endpoint=liveness_endpoint,
        metrics_endpoint=metrics_endpoint,
        clusterwide=clusterwide, namespaces=namespaces, namespace=namespace,
        stop_flag=stop_flag, ready_flag=ready_flag, vault=vault, memo=memo,
        handle_signals=handle_signals, _command=_command,
    )
    return [asyncio.create_task(running, name="kopf operator")]


async def run_tasks(
    root_tasks: Collection[asyncio.Task[Any]],
    *,
    ignored: Collection[asyncio.Task[Any]] = frozenset(),
) -> None:
    """Waits until any of the tasks ends, cancels the others, and raises the first error.

    Arguments:

    - ``root_tasks``: the tasks of :func:`kopf.spawn_tasks`, and your own ones.
    - ``ignored``: accepted for compatibility.

    ::

        async def main() -> None:
            await kopf.run_tasks(await kopf.spawn_tasks(namespaces=["default"]))
    """
    tasks = set(root_tasks)
    try:
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _cancel(tasks)
        raise
    await _cancel(pending)
    for task in done | pending:
        if not task.cancelled():
            task.result()


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def operator(
    *,
    lifecycle: Any | None = None,
    indexers: OperatorIndexers | None = None,
    registry: OperatorRegistry | None = None,
    settings: OperatorSettings | None = None,
    memories: object | None = None,
    insights: object | None = None,
    identity: str | None = None,
    standalone: bool | None = None,
    priority: int | None = None,
    peering_name: str | None = None,
    liveness_endpoint: str | None = None,
    metrics_endpoint: str | None = None,
    clusterwide: bool = False,
    namespaces: Collection[str | re.Pattern[str]] = (),
    namespace: str | re.Pattern[str] | None = None,
    stop_flag: flags.Flag | None = None,
    ready_flag: flags.Flag | None = None,
    vault: object | None = None,
    memo: object | None = None,
    handle_signals: bool | None = None,
    _command: Coroutine[None, None, None] | None = None,
) -> None:
    """Runs an operator in the current event loop, until it is stopped or its task is cancelled.

    The arguments are those of :func:`kopf.run`, except ``loop``.

    ::

        import asyncio

        async def main() -> None:
            ready = asyncio.Event()
            task = asyncio.create_task(kopf.operator(clusterwide=True, ready_flag=ready))
            await ready.wait()
            task.cancel()
    """
    for name, value in (("memories", memories), ("insights", insights), ("vault", vault)):
        if value is not None:
            warnings.warn(f"{name}= is internal and has no effect.", RuntimeWarning, stacklevel=2)
    if namespace is not None:
        warnings.warn("namespace= is deprecated; use namespaces=[]", DeprecationWarning, stacklevel=2)
    if namespace is not None and namespaces:
        raise TypeError("Either namespaces= or namespace= can be passed. Got both: use namespaces=.")
    patterns = [namespace] if namespace is not None else list(namespaces)
    if clusterwide and patterns:
        raise TypeError("The operator can be either cluster-wide or namespaced, not both: leave out either "
                        "clusterwide= or namespaces=.")
    if not clusterwide and not patterns:
        warnings.warn("Absence of either namespaces or cluster-wide flag will become an error soon."
                      " For now, switching to the cluster-wide mode for backward compatibility.",
                      FutureWarning, stacklevel=2)
        clusterwide = True
    if _command is not None:
        _command.close()

    settings = settings if settings is not None else OperatorSettings()
    settings.peering.clusterwide = clusterwide
    if peering_name is not None:
        settings.peering.mandatory = True
        settings.peering.name = peering_name
    if standalone is not None:
        settings.peering.standalone = standalone
    if priority is not None:
        settings.peering.priority = priority
    virtual = current.virtual_sandbox
    if virtual is not None and getattr(asyncio.get_running_loop(), "virtual", None) is not virtual:
        raise OperatorError(
            "the sandbox has virtual time, which this event loop does not follow: run the operator by "
            "kopf.testing.KopfRunner, or in a loop of cluster.new_event_loop()"
        )
    registry = registry if registry is not None else get_default_registry()
    if virtual is not None:
        await _configure_clients(registry, settings)
    try:
        definitions = schemas.to_manifests(schemas.declared(registry))
    except ValueError as exc:
        raise OperatorError(str(exc)) from exc
    running = RunningOperator(
        registry=registry,
        settings=settings,
        indexers=indexers if indexers is not None else OperatorIndexers(),
        options={
            "clusterwide": clusterwide,
            "namespaces": patterns,
            "identity": str(identity) if identity is not None else None,
            "liveness_endpoint": liveness_endpoint,
            "metrics_endpoint": metrics_endpoint,
            "lifecycle": lowering.lower_lifecycle(
                lifecycle if lifecycle is not None else lifecycles.get_default_lifecycle()),
            "memo": memo if memo is not None else Memo(),
            "copy": _copy_memo,
            "definitions": definitions,
            "page": current.page_var.get(),
            "virtual": virtual,
        },
    )
    await running.run(stop_flag, ready_flag, handle_signals)


def _copy_memo(memo: object) -> object:
    """Returns a copy of the operator's memo for an object."""
    # `copy.copy()` takes several times longer than the other work for the memo of a review.
    return Memo(memo) if type(memo) is Memo else copy.copy(memo)


class RunningOperator:
    """An operator with its engine."""

    def __init__(
        self,
        *,
        registry: OperatorRegistry,
        settings: OperatorSettings,
        indexers: OperatorIndexers,
        options: dict[str, Any],
    ) -> None:
        from kopf._kopf import Engine, logger_names
        from kopf._front.bridge.bridge import Bridge

        self.registry = registry
        self.options = options
        self.loop = asyncio.get_running_loop()
        self.thread = threading.current_thread()
        self.bridge: Bridge = Bridge(
            loop=self.loop, settings=settings, registry=registry, indexers=indexers,
            logger_names=logger_names(),
        )
        self.engine: Engine = Engine(self.bridge)
        self.bridge.engine = self.engine
        self.bridge.has_own_lifecycle = callable(options["lifecycle"])
        self.bridge.redeclare = self.declare
        self.bridge.on_fatal = self._set_fatal
        self.bridge.on_ended = self._set_ended
        self._ended: asyncio.Future[_End] = self.loop.create_future()
        self._fatal: BaseException | None = None
        self._stopped_at: float | None = None
        self._levels_checked = 0.0
        self._settings_checked = 0.0
        self._fixed_settings: fixing.Snapshot = {}

    def declare(self) -> None:
        """Sends the currently registered handlers to the engine."""
        handlers = lowering.all_handlers(self.registry)
        if piggybacking.sandbox_kubeconfig() and not any(map(_is_login, handlers)):
            # The engine knows only kubeconfigs of the environment.
            handlers = [*handlers, _SANDBOX_LOGIN]
        indexing = [handler for handler in handlers if isinstance(handler, IndexingHandler)]
        self.bridge.indexers.ensure(indexing)
        self.bridge.handlers.update({str(handler.id): handler for handler in handlers})
        self.engine.declare([lowering.lower(handler) for handler in handlers])

    async def run(
        self,
        stop_flag: flags.Flag | None,
        ready_flag: flags.Flag | None,
        handle_signals: bool | None = None,
    ) -> None:
        """Runs the operator until it is stopped, cancelled, or fails."""
        try:
            await self._run(stop_flag, ready_flag, handle_signals)
        except BaseException as exc:
            exits.limit_threads(exits.code_of(exc), self._time_for_threads())
            raise
        exits.limit_threads(0, self._time_for_threads())

    async def _run(
        self,
        stop_flag: flags.Flag | None,
        ready_flag: flags.Flag | None,
        handle_signals: bool | None,
    ) -> None:
        self.bridge.on_started = lambda: self._on_started(ready_flag)
        loggers.attach_poster()
        startup = [
            lowering.lower(handler) for handler in lowering.all_handlers(self.registry)
            if isinstance(handler, ActivityHandler) and handler.activity == "startup"
        ]
        self.declare()
        self._refresh_levels()
        with contextlib.ExitStack() as stack:
            stack.callback(self._close)
            self.loop.add_reader(self.engine.fileno(), self._drain)
            stack.callback(self.loop.remove_reader, self.engine.fileno())
            self.engine.start(startup, self.bridge.settings, self.options)
            _running.add(self)
            stack.enter_context(signals.handled(self._on_signal, replace=handle_signals))
            stack.enter_context(flags.watched(self.loop, stop_flag, self._on_stop_flag))
            kind, message, exception = await self._wait()
            outcomes = self.bridge.outcomes
        if self._fatal is not None:
            raise self._fatal
        if kind == "login":
            raise LoginError(message) from _first_failure(outcomes.get("authentication", {}))
        if kind in outcomes:
            of_activity = outcomes[kind]
            raise ActivityError(message or "", outcomes=of_activity) from _first_failure(of_activity)
        if kind is not None:
            raise OperatorError(message) from exception

    async def _wait(self) -> _End:
        try:
            return await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self._stop()
            # Further cancellations do not make the engine end faster.
            while not self._ended.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(self._ended)
            raise

    def _on_started(self, ready_flag: flags.Flag | None) -> None:
        # Startup handlers can reconfigure logging.
        loggers.attach_poster()
        self.registry._set_in_use(True)
        self._fixed_settings = fixing.snapshot(self.bridge.settings)
        flags.raise_flag(ready_flag)

    def _close(self) -> None:
        self.registry._set_in_use(False)
        self.engine.stop()
        self.engine.close()
        self.engine.join()
        self.bridge.close()
        _running.discard(self)
        # The garbage collector does not see references of the native module. Without this, the
        # settings and their threads would never be released.
        self.bridge.detach()

    def is_left(self) -> bool:
        """Returns ``True`` if the operator still runs, in its loop or without it."""
        return self in _running and not self.engine.is_finished()

    def _drain(self) -> None:
        if self.bridge.is_forked:
            return  # the signal is for the parent
        now = time.monotonic()
        if now - self._levels_checked > LEVELS_INTERVAL:
            self._refresh_levels()
        if now - self._settings_checked > SETTINGS_INTERVAL and self._fixed_settings:
            self._settings_checked = now
            self._fixed_settings = fixing.warn_of_changes(self.bridge.settings, self._fixed_settings)
        self.engine.drain()

    def _refresh_levels(self) -> None:
        self.engine.set_levels(self.bridge.levels(), tracing.is_used())
        self._levels_checked = time.monotonic()

    def _set_ended(
        self, kind: str | None, message: str | None, exception: BaseException | None,
    ) -> None:
        if not self._ended.done():
            self._ended.set_result((kind, message, exception))

    def _set_fatal(self, handler: Handler, exc: BaseException) -> None:
        if self._fatal is None:
            self._fatal = exc
        logger.error("%s raised %r. Operator is stopping.", handler, exc, exc_info=exc)
        self._stop()

    def _on_stop_flag(self, value: Any) -> None:
        what = "raised" if value is None else f"set to {value!r}"
        logger.info("Stop-flag is %s. Operator is stopping.", what)
        self._stop()

    def _stop(self) -> None:
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            timeout = max(0.0, self.bridge.settings.queueing.exit_timeout)
            self.loop.call_later(timeout, self.bridge.cancel_blocking)
        self.engine.stop()

    def _time_for_threads(self) -> float:
        """Returns the time left for functions in threads to return."""
        if self._stopped_at is None:
            return exits.HUNG
        timeout = self.bridge.settings.queueing.exit_timeout + exits.HUNG
        return max(0.0, self._stopped_at + timeout - time.monotonic())

    def _on_signal(self, name: str) -> None:
        logger.info("Signal %s is received. Operator is stopping.", name)
        self._limit_exit()
        # If a handler blocks the loop, its result must not be abandoned: the time for exiting
        # begins when the loop responds.
        self.loop.call_soon_threadsafe(self._stop)
        timeout = self.bridge.settings.queueing.exit_timeout
        exits.watch_loop(self.loop, self.thread, timeout, lambda: self in _running)

    def _limit_exit(self) -> None:
        """Kills the process if it does not exit in time."""
        timeout = self.bridge.settings.process.ultimate_exiting_timeout
        if timeout is None:
            return

        def kill() -> None:
            # The main thread has ended while the interpreter waits for other threads at its exit.
            if self in _running or not threading.main_thread().is_alive():
                os.kill(os.getpid(), signal.SIGKILL)

        timer = threading.Timer(timeout, kill)
        timer.daemon = True
        timer.start()


_SANDBOX_LOGIN = ActivityHandler(
    id=HandlerId("login_with_kubeconfig"), fn=piggybacking.login_with_kubeconfig, param=None,
    errors=None, timeout=None, retries=None, backoff=None, activity=Activity.AUTHENTICATION,
)


def _is_login(handler: Handler) -> bool:
    return isinstance(handler, ActivityHandler) and handler.activity == Activity.AUTHENTICATION


async def _configure_clients(registry: OperatorRegistry, settings: OperatorSettings) -> None:
    """Configures client libraries for handlers, as the default logins do, which are not called."""
    logins = {handler.fn for handler in lowering.all_handlers(registry) if _is_login(handler)}
    if piggybacking.login_via_client in logins:
        piggybacking.login_via_client(logger=logger, settings=settings)
    if piggybacking.login_via_async_client in logins:
        await piggybacking.login_via_async_client(logger=logger, settings=settings)


def _first_failure(outcomes: Mapping[str, Outcome]) -> BaseException | None:
    return next((one.exception for one in outcomes.values() if one.exception is not None), None)


_running: weakref.WeakSet[RunningOperator] = weakref.WeakSet()


def _stop_left() -> None:
    """Stops operators that still run when the interpreter exits.

    They run in daemonic threads, or their loops are stopped. Otherwise, the interpreter would wait
    forever for the threads of their sync daemons.
    """
    left = [
        operator for operator in list(_running)
        if operator.thread.daemon or not operator.loop.is_running()
    ]
    for operator in left:
        operator.engine.stop()
        if not operator.loop.is_running():
            operator.engine.close()
            operator.bridge.close()
    deadline = time.monotonic() + EXIT_TIMEOUT
    while any(operator.is_left() for operator in left):
        if time.monotonic() > deadline:
            logger.warning("The operator is abandoned: not stopped in %s seconds.", EXIT_TIMEOUT)
            break
        time.sleep(0.01)


def _forget_all() -> None:
    """Drops all operators in a forked child, where the threads of their engines do not exist."""
    for operator in _running:
        operator.bridge.is_forked = True
    _running.clear()


if hasattr(threading, "_register_atexit"):
    # Called before waiting for the threads of executors, unlike the functions of `atexit`.
    import concurrent.futures.thread

    threading._register_atexit(_stop_left)
else:
    atexit.register(_stop_left)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
