"""The Python side of the bridge to the engine: starts functions, emits records, calls callbacks.

All methods are called by the drain in the thread of the operator's event loop, except for those
that finish functions in threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import datetime
import inspect
import itertools
import logging
import os
import sys
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kopf._front.bridge import answers, execution, forks, invocation, lowering, threads, tracing, variables
from kopf._front.declare import typed
from kopf._front.objects import current, patches
from kopf._front.serving import serving
from kopf._front.objects.causes import cause_var
from kopf._front.state.credentials import AiohttpSession, ConnectionInfo
from kopf._front.objects.current import CurrentCall, bridge_var, call_var
from kopf._front.objects.errors import (
    AdmissionError, ApplyError, FieldConflict, HandlerChildrenRetry, Outcome, PermanentError, TemporaryError,
)
from kopf._front.declare.handlers import (
    ActivityHandler, ChildHandler, Handler, IndexingHandler, ReconcileHandler, SpawningHandler,
    WatchingHandler, WebhookHandler,
)
from kopf._front.objects.references import Resource
from kopf._front.objects.triggers import Requeue

if TYPE_CHECKING:
    from kopf._front.state.configuration import OperatorSettings
    from kopf._front.objects.ephemera import OperatorIndexers
    from kopf._front.declare.registries import OperatorRegistry
    from kopf._kopf import Call as NativeCall

__all__ = ["Bridge"]

#: Threads for sync daemons, which would otherwise starve other functions.
DAEMON_THREADS = 512

#: Maximum number of functions with cached annotations. Sub-handlers are often new functions.
MAX_PLANS = 1000

_Future = asyncio.Future[Any] | concurrent.futures.Future[Any]
_FutureT = TypeVar("_FutureT", asyncio.Future[Any], concurrent.futures.Future[Any])

#: Handlers whose results are ignored.
_WITHOUT_RESULTS = (WatchingHandler, ChildHandler)


class Bridge(answers.Answers, serving.ServingMixin):
    """The bridge of one operator."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        settings: OperatorSettings,
        registry: OperatorRegistry,
        indexers: OperatorIndexers,
        logger_names: list[str],
    ) -> None:
        self.loop = loop
        self.pid = os.getpid()
        #: True in a forked child of the process with the engine.
        self.is_forked = False
        self.settings = settings
        self.registry = registry
        self.indexers = indexers
        self.indices = indexers.indices
        #: The sandbox whose virtual time the functions follow.
        self.virtual = current.virtual_sandbox
        #: The handlers that run in threads, with their threads, if time is virtual.
        self.threads: dict[CurrentCall, int | None] = {}
        self.handlers: dict[str, Handler] = {}
        self.has_own_lifecycle = False
        self.loggers = [logging.getLogger(name) for name in logger_names]
        self.redeclare: Callable[[], None]
        self.on_started: Callable[[], None]
        self.on_ended: Callable[[str | None, str | None, BaseException | None], None]
        self.on_fatal: Callable[[Handler, BaseException], None]
        self.detach()
        self.context = contextvars.copy_context()
        self.context.run(bridge_var.set, self)
        #: Outcomes of the last calls of activity handlers, by activities and ids.
        self.outcomes: dict[str, dict[str, Outcome]] = {}
        self._plans: dict[Any, typed.Plan | None] = {}
        #: Context variables of activities, by the names of their tasks.
        self.variables: dict[str, variables.Variables] = {}
        self._daemon_pool: concurrent.futures.Executor | None = None
        self._is_exiting = False
        #: Futures that only the engine resolves.
        self._pending: set[_Future] = set()
        self._finishing: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()

    # Calls of functions.

    def start(self, native: NativeCall) -> asyncio.Task[None] | None:
        """Starts a function. Returns the task if it can be cancelled."""
        handler = cast(Handler, native.handler)
        cause = invocation.make_cause(self, native, handler)
        call = CurrentCall(self, native, handler, cause, invocation.new_subregistry(handler))
        call.variables = variables.shared_by(call)
        call.before = call.variables.context
        context = call.before.copy()
        context.run(_enter, call)
        call.span = tracing.begin(call, context)
        kwargs = invocation.make_kwargs(native, handler, cause, is_async=native.is_async)
        if native.is_async:
            coro = self._run_async(call, kwargs)
            name = variables.task_name(native, handler)
            if sys.version_info >= (3, 12):
                return asyncio.Task(
                    coro, loop=self.loop, name=name, context=context, eager_start=True)
            return self.loop.create_task(coro, name=name, context=context)
        if self.virtual is not None:
            self.threads[call] = None
            self._note(self.virtual.enter_thread)
            self._executor(handler).submit(context.run, self._run_sync_virtually, call, kwargs)
        else:
            self._executor(handler).submit(context.run, self._run_sync, call, kwargs)
        return None

    def _run_sync_virtually(self, call: CurrentCall, kwargs: dict[str, Any]) -> None:
        assert self.virtual is not None
        self.threads[call] = threading.get_ident()
        try:
            self._run_sync(call, kwargs)
        finally:
            del self.threads[call]
            self._note(self.virtual.leave_thread)

    def _note(self, notify: Callable[[], None]) -> None:
        """Tells virtual time about threads, unless its sandbox is stopped."""
        with contextlib.suppress(RuntimeError):
            notify()

    def _executor(self, handler: Handler) -> concurrent.futures.Executor:
        execution = self.settings.execution
        if isinstance(handler, SpawningHandler) and not execution.has_own_executor():
            if self._daemon_pool is None:
                workers = execution.max_workers or DAEMON_THREADS
                self._daemon_pool = threads.ShrinkingExecutor(workers)
            return self._daemon_pool
        return execution.executor

    async def _run_async(self, call: CurrentCall, kwargs: dict[str, Any]) -> None:
        try:
            result = await self._call(call, kwargs)
            if call.subregistry is not None and call.subregistry._handlers and not self.is_forked:
                await execution.run(call, call.subregistry.get_all_handlers())
        except BaseException as exc:
            variables.keep(call)
            self._fail(call, exc)
        else:
            variables.keep(call)
            self._finish(call, result)

    def _run_sync(self, call: CurrentCall, kwargs: dict[str, Any]) -> None:
        try:
            result = self._call(call, kwargs)
            if inspect.iscoroutine(result):
                result.close()
                raise PermanentError(
                    f"{call.handler} is a plain function that returned a coroutine: declare it as async"
                )
        except BaseException as exc:
            self._fail(call, exc)
            return
        if call.subregistry is not None and call.subregistry._handlers and not self.is_forked:
            context = contextvars.copy_context()
            self.loop.call_soon_threadsafe(self._finish_subs, call, result, context)
        else:
            self._finish(call, result)

    def _call(self, call: CurrentCall, kwargs: dict[str, Any]) -> Any:
        fn = call.handler.fn
        try:
            plan = self._plans[fn]
        except KeyError:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            plan = self._plans[fn] = typed.plan(fn)
        except TypeError:  # not hashable
            plan = typed.plan(fn)
        return fn(**(kwargs if plan is None else typed.apply(plan, kwargs)))

    def _finish_subs(self, call: CurrentCall, result: Any, context: contextvars.Context) -> None:
        """Runs the sub-handlers that a function in a thread has declared."""
        task = self.loop.create_task(self._run_subs(call, result), context=context)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _run_subs(self, call: CurrentCall, result: Any) -> None:
        assert call.subregistry is not None
        try:
            await execution.run(call, call.subregistry.get_all_handlers())
        except BaseException as exc:
            self._fail(call, exc)
        else:
            self._finish(call, result)

    # Results of functions.

    def _finish(self, call: CurrentCall, result: Any) -> None:
        if self.is_forked:
            forks.leave()
        if call.abandon():
            self._fail(call, PermanentError(
                "kopf.apply_child() was not awaited and has done nothing: add `await`"
            ))
            return
        native, handler = call.native, call.handler
        tracing.end(call)
        # Before the result is passed to the engine, which may end in another thread.
        self._remember(call, result=result)
        try:
            self.send_patch(call)
            if isinstance(handler, ActivityHandler):
                self._finish_activity(native, handler, result)
            elif isinstance(handler, IndexingHandler):
                native.finish_index(result) if result is not None else native.finish(None)
            elif isinstance(handler, ReconcileHandler):
                self._finish_reconciliation(native, result)
            elif isinstance(handler, _WITHOUT_RESULTS):
                native.finish(None)
            elif isinstance(handler, WebhookHandler):
                self._send_warnings(call)
                native.finish(None)
            else:
                self._finish_with(native, result)
        except Exception as exc:
            self._remember(call, exception=exc)
            native.fail("permanent", _text(exc))

    def _remember(
        self, call: CurrentCall, *, result: Any = None, exception: BaseException | None = None,
    ) -> None:
        """Stores the outcome of an activity handler for `ActivityError`."""
        if not isinstance(call.handler, ActivityHandler) or call.native.activity == "probe":
            return
        # They are used only when all handlers of the activity have ended.
        outcome = Outcome(final=True, result=result, exception=exception)
        self.outcomes.setdefault(call.native.activity or "", {})[call.handler.id] = outcome

    def _finish_with(self, native: NativeCall, result: Any) -> None:
        try:
            native.finish(result)
        except (TypeError, ValueError) as exc:
            native.fail("permanent", f"The result cannot be stored in the status: {_text(exc)}.")

    def _finish_activity(self, native: NativeCall, handler: ActivityHandler, result: Any) -> None:
        from kopf._kopf import set_settings

        activity = native.activity
        if activity == "startup":
            try:
                set_settings(native, self.settings)
            except Exception as exc:
                # The message names the setting. The frames are only those of the conversion.
                raise PermanentError(_text(exc)).with_traceback(None) from None
            self.redeclare()
            native.finish(None)
        elif activity == "authentication":
            self._finish_login(native, handler, result)
        elif activity == "probe":
            self._finish_with(native, result)
        else:
            native.finish(None)

    def _finish_reconciliation(self, native: NativeCall, result: Any) -> None:
        if result is not None and not isinstance(result, Requeue):
            raise TypeError(
                f"a reconcile handler has returned {type(result).__name__}: it must return None or "
                "kopf.Requeue; write results to patch.status"
            )
        native.finish_requeue(None if result is None else result.seconds)

    def _finish_login(self, native: NativeCall, handler: ActivityHandler, result: Any) -> None:
        if result is None:
            native.finish(None)
        elif isinstance(result, ConnectionInfo):
            from kopf._kopf import finish_login

            finish_login(native, result)
        elif isinstance(result, AiohttpSession):
            raise PermanentError(
                f"login handler '{handler.id}' returned kopf.AiohttpSession, which is not supported: "
                f"requests are not sent by aiohttp; return kopf.ConnectionInfo with the server, the "
                f"credentials and, if needed, proxy_url"
            )
        else:
            raise PermanentError(
                f"login handler '{handler.id}' returned {type(result).__qualname__}: "
                f"return kopf.ConnectionInfo, or None if there are no credentials"
            )

    def send_patch(self, call: CurrentCall) -> None:
        """Sends the current patch to the engine."""
        if isinstance(call.handler, ActivityHandler):
            return
        cycle = cast(invocation.Cycle, call.native.cycle)
        patch = cycle.patch
        if patch or cycle.was_patched:
            try:
                call.native.set_patch(dict(patch), list(patch.fns))
            except (TypeError, ValueError) as exc:
                # The patch is shared, and other handlers must not fail because of these values.
                patches.discard_unsendable(patch)
                raise PermanentError(f"The patch cannot be sent: {_text(exc)}.") from exc
            cycle.was_patched = True
        if patch.fns:
            # Functions often refer to views of the body. A view refers to the call until its first
            # access, and the call refers to the patch with these functions. The garbage collector
            # cannot detect such cycles.
            call.cause.body.get("kind")  # type: ignore[attr-defined]
            len(getattr(call.cause, "diff", ()))

    def _send_warnings(self, call: CurrentCall) -> None:
        warnings = call.cause.warnings  # type: ignore[attr-defined]
        if warnings:
            call.native.warn([_text(warning) for warning in warnings])

    def _fail(self, call: CurrentCall, exc: BaseException) -> None:
        if self.is_forked:
            forks.leave(exc)
        call.abandon()
        native = call.native
        tracing.end(call, exc)
        try:
            self.send_patch(call)
            if isinstance(call.handler, WebhookHandler):
                self._send_warnings(call)
        except Exception as second:
            exc = second
        if native.activity == "startup":
            # The error may be ignored, and the settings changed before it are in effect.
            from kopf._kopf import set_settings

            with contextlib.suppress(Exception):
                set_settings(native, self.settings)
        if not isinstance(exc, Exception | asyncio.CancelledError):
            # SystemExit and KeyboardInterrupt end the operator.
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self.on_fatal, call.handler, exc)
        self._remember(call, exception=_trimmed(exc))
        try:
            self._report(native, exc)
        except Exception as third:  # an invalid delay or code: the engine needs a result
            native.fail("permanent", f"{type(exc).__qualname__} cannot be handled: {_text(third)}")

    def _report(self, native: NativeCall, exc: BaseException) -> None:
        message = _text(exc) or repr(exc)
        match exc:
            case HandlerChildrenRetry():
                native.fail("unfinished", message, delay=exc.delay)
            case TemporaryError():
                native.fail("temporary", message, delay=_seconds(exc.delay))
            case AdmissionError():
                native.fail("denied", message, code=exc.code)
            case PermanentError():
                native.fail("permanent", message)
            case asyncio.CancelledError() if native.is_cancelled:
                native.fail("cancelled", message)
            case BaseException() if self._ends(exc):
                # The exception is logged when the operator stops. The handler is called again by
                # the next process.
                delay = _seconds(self.settings.execution.default_backoff)
                native.fail("temporary", f"{exc!r}. The operator exits.", delay=delay)
            case _:
                native.fail("arbitrary", message, exception=_trimmed(exc))

    def _ends(self, exc: BaseException) -> bool:
        """Returns ``True`` for exceptions that end the operator, or that its end has caused."""
        if isinstance(exc, concurrent.futures.CancelledError):
            return self._is_exiting
        return not isinstance(exc, Exception | asyncio.CancelledError)

    # Records.

    def emit(
        self,
        number: int,
        level: int,
        message: str,
        created: float,
        ref: dict[str, Any] | None,
        exception: BaseException | None,
        details: str | None,
    ) -> None:
        """Emits a record of the engine."""
        logger = self.loggers[number]
        if not logger.isEnabledFor(level):
            return
        exception = _trimmed(exception) if exception is not None else None
        exc_info = (type(exception), exception, exception.__traceback__) if exception else None
        extra: dict[str, Any] | None = None
        if ref is not None:
            extra = {"k8s_ref": ref, "k8s_skip": True, "settings": self.settings}
        record = logger.makeRecord(
            logger.name, level, "kopf", 0, message, (), cast(Any, exc_info), None, extra,
        )
        record.created = created
        record.msecs = (created - int(created)) * 1000
        if details and exception is None:
            record.exc_text = details
        logger.handle(record)

    def records_dropped(self, number: int) -> None:
        """Warns about records that did not fit into the queue."""
        logging.getLogger("kopf").warning(
            "%s log records of the engine were dropped: the event loop was blocked.", number)

    def levels(self) -> list[int]:
        """Returns the effective levels of the loggers."""
        disabled = logging.root.manager.disable
        return [
            max(logger.getEffectiveLevel(), disabled + 1 if disabled else 0)
            for logger in self.loggers
        ]

    # Other requests of the engine.

    def new_cycle(self) -> invocation.Cycle:
        """Returns the shared state of a new cycle."""
        return invocation.Cycle()

    def resource(self, fields: dict[str, Any]) -> Resource:
        """Returns the resource with these fields."""
        for name in ("shortcuts", "categories", "subresources", "verbs"):
            fields[name] = frozenset(fields[name])
        return Resource(**fields)

    def index(self, id: str, key: str, result: object) -> None:
        """Replaces the values of an object in an index."""
        self.indexers[cast(Any, id)].replace(cast(Any, (key,)), result)

    def unindex(self, id: str, key: str) -> None:
        """Removes an object from an index."""
        self.indexers[cast(Any, id)].discard(cast(Any, (key,)))

    def new_future(self) -> asyncio.Future[Any]:
        """Returns a future for a result of the engine. Cancelled at the end of the operator."""
        return self._track(self.loop.create_future())

    def new_blocking_future(self) -> concurrent.futures.Future[Any]:
        """Same as :meth:`new_future`, for functions in threads."""
        return self._track(concurrent.futures.Future())

    def result_of(self, future: concurrent.futures.Future[Any]) -> Any:
        """Waits for a future in a thread. Virtual time passes meanwhile."""
        virtual = self.virtual
        if virtual is not None:
            # In the thread that resolves the future, before it becomes idle.
            future.add_done_callback(lambda _: self._note(virtual.enter_thread))
            self._note(virtual.leave_thread)
        return future.result()

    def _track(self, future: _FutureT) -> _FutureT:
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def resolve(self, future: _Future, value: Any) -> None:
        """Resolves a future, unless it is cancelled."""
        if not future.done():
            future.set_result(value)

    def reject(self, future: _Future, kind: str, detail: Any) -> None:
        """Fails a future, unless it is cancelled."""
        if future.done():
            return
        if kind == "raised":
            future.set_exception(detail)
        elif kind == "unfinished":
            future.set_exception(HandlerChildrenRetry(delay=detail))
        elif kind == "permanent":
            future.set_exception(PermanentError(detail))
        else:
            future.set_exception(serving.REFUSALS.get(kind, RuntimeError)(detail))

    def reject_applied(
        self,
        future: _Future,
        message: str,
        code: int | None,
        reason: str | None,
        conflicts: list[tuple[str, str]],
    ) -> None:
        """Fails the future of an applied child, unless it is cancelled."""
        if not future.done():
            fields = itertools.starmap(FieldConflict, conflicts)
            error = ApplyError(message, code=code, reason=reason, conflicts=fields)
            future.set_exception(error)

    def started(self) -> None:
        """Handles the end of the startup activity."""
        self.on_started()

    def ended(
        self, kind: str | None, message: str | None, exception: BaseException | None,
    ) -> None:
        """Handles the end of the engine."""
        self.on_ended(kind, message, exception)

    def detach(self) -> None:
        """Drops the references to the running operator and its engine."""
        self.redeclare = self.on_started = lambda: None
        self.on_ended = lambda kind, message, exception: None
        self.on_fatal = lambda handler, exc: None
        self.outcomes = {}
        vars(self).pop("engine", None)

    def cancel_blocking(self) -> None:
        """Cancels the requests for which threads wait: the threads cannot be cancelled themselves."""
        self._is_exiting = True
        for future in list(self._pending):
            if isinstance(future, concurrent.futures.Future):
                future.cancel()

    def close(self) -> None:
        """Cancels the requests to the engine, and shuts down the threads of daemons."""
        for future in list(self._pending):
            with contextlib.suppress(RuntimeError):  # the loop is closed
                future.cancel()
        if self._daemon_pool is not None:
            self._daemon_pool.shutdown(wait=False)

    start_span = staticmethod(tracing.start)
    end_span = staticmethod(tracing.finish)
    describe_selectors = staticmethod(lowering.describe_selectors)
    describe_progress_storage = staticmethod(lowering.describe_progress_storage)
    status_field = staticmethod(lowering.status_field)
    describe_diffbase_storage = staticmethod(lowering.describe_diffbase_storage)


def _enter(call: CurrentCall) -> None:
    call_var.set(call)
    cause_var.set(call.cause)


def _text(value: object) -> str:
    """Returns the text of an exception or value. Never fails; the text can be encoded in UTF-8."""
    try:
        text = str(value)
    except Exception as exc:
        text = f"{type(value).__qualname__} without a text: {type(exc).__qualname__}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _seconds(delay: Any) -> float | None:
    if isinstance(delay, datetime.timedelta):
        return delay.total_seconds()
    return None if delay is None else float(delay)


_OWN_FILES = {__file__, answers.__file__, execution.__file__, serving.__file__}


def _trimmed(exc: BaseException) -> BaseException:
    """Removes the frames of this package from the beginning of the traceback."""
    traceback: types.TracebackType | None = exc.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _OWN_FILES:
        traceback = traceback.tb_next
    return exc.with_traceback(traceback)
