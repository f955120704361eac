"""A runner of the command line in a thread, for tests of operators."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from kopf._front.objects import current
from kopf._front.tools import run_registries, virtual_time

if TYPE_CHECKING:
    import click.testing
    from kopf._front.state.configuration import OperatorSettings
    from kopf._front.declare.registries import OperatorRegistry

__all__ = ["KopfRunner"]

if TYPE_CHECKING:
    _ExcType = BaseException
    _ExcInfo = tuple[type[BaseException], BaseException, types.TracebackType]
    _Future = concurrent.futures.Future[click.testing.Result]


class KopfRunner(contextlib.AbstractContextManager["KopfRunner"]):
    """A context manager that runs a command, usually an operator, in a thread with its own event loop.

    On exit, the operator is stopped, and the runner waits for it. While the command runs, ``output``,
    ``stdout`` and ``stderr`` contain what was written so far. Reading the exit code or the exception waits
    for the end of the command.

    Arguments:

    - ``args``: the arguments of the command line; these and unknown keyword arguments are those of
      ``click.testing.CliRunner.invoke()``.
    - ``reraise``: a failed command raises its exception; ``True`` by default.
    - ``timeout``: seconds to wait for the end on exit; unlimited by default.
    - ``registry``: the handlers; by default, each run has its own registry: the handlers of its files,
      those that are registered by default, and those of imported modules, which are executed only once per
      process.
    - ``settings``: the settings before startup handlers; by default, new ones.
    - ``kwargs``: the other arguments of ``invoke()``, such as ``env``.

    ::

        import kopf.testing
        import time

        def test_operator():
            with kopf.testing.sandbox("crd.yaml"):
                with kopf.testing.KopfRunner(["run", "-A", "-m", "json"], timeout=60) as runner:
                    # Here, create objects, and wait for the consequences.
                    while "The operator is ready" not in runner.output:
                        time.sleep(0.1)
            assert runner.exit_code == 0
    """

    _future: _Future

    def __init__(
        self,
        *args: Any,
        reraise: bool = True,
        timeout: float | None = None,
        registry: OperatorRegistry | None = None,
        settings: OperatorSettings | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.args = args
        self.kwargs = kwargs
        self.reraise = reraise
        self.timeout = timeout
        self.registry = registry
        self.settings = settings
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._target)
        self._streams: Any = None
        self._future = concurrent.futures.Future()

    def __enter__(self) -> KopfRunner:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: types.TracebackType | None,
    ) -> Literal[False]:
        self._stop.set()
        self._thread.join(timeout=self.timeout)
        if self._thread.is_alive():
            raise Exception("The operator didn't stop, still running.")

        result = self._future.result()
        if self.reraise and result.exception is not None:
            if exc_val is None:
                raise result.exception
            raise result.exception from exc_val
        return False

    def _target(self) -> None:
        # The loop of the thread, for handler files that call `asyncio.get_event_loop()`.
        virtual = current.virtual_sandbox
        loop = asyncio.new_event_loop() if virtual is None else virtual_time.VirtualLoop(virtual)
        asyncio.set_event_loop(loop)
        self._ready.set()
        try:
            self._future.set_result(self._invoke(loop))
        except BaseException as exc:
            self._future.set_exception(exc)
        finally:
            with contextlib.suppress(Exception):
                _drain(loop)
            asyncio.set_event_loop(None)
            loop.close()

    def _invoke(self, loop: asyncio.AbstractEventLoop) -> click.testing.Result:
        import click.testing

        from kopf import cli

        class Runner(click.testing.CliRunner):
            @contextlib.contextmanager
            def isolation(inner, *args: Any, **kwargs: Any) -> Iterator[Any]:
                with super().isolation(*args, **kwargs) as streams:
                    self._streams = streams
                    yield streams

        with run_registries.own(self.registry) as registry:
            controls = cli.CLIControls(
                registry=registry,
                settings=self.settings,
                stop_flag=self._stop,
                loop=loop,
            )
            return Runner().invoke(cli.main, *self.args, **self.kwargs, obj=controls)

    def _read(self, number: int) -> bytes:
        """Returns what was written so far: to stdout, to stderr, or to both."""
        streams = self._streams
        if streams is None:
            return b""
        with contextlib.suppress(Exception):  # replaced or closed at the end of the command
            sys.stdout.flush()
            sys.stderr.flush()
        # Old versions of click have no separate stream for both.
        stream = streams[number] if number < len(streams) else streams[0]
        return stream.getvalue() if stream is not None else b""

    @property
    def future(self) -> _Future:
        """The future of click's result."""
        return self._future

    @property
    def output(self) -> str:
        """The mixed stdout and stderr."""
        if self._future.done():
            return self._future.result().output
        return _text(self._read(2))

    @property
    def stdout(self) -> str:
        """The stdout as text."""
        return self._future.result().stdout if self._future.done() else _text(self._read(0))

    @property
    def stdout_bytes(self) -> bytes:
        """The stdout as bytes."""
        return self._future.result().stdout_bytes if self._future.done() else self._read(0)

    @property
    def stderr(self) -> str:
        """The stderr as text, where log records go."""
        return self._future.result().stderr if self._future.done() else _text(self._read(1))

    @property
    def stderr_bytes(self) -> bytes:
        """The stderr as bytes."""
        if self._future.done():
            return self._future.result().stderr_bytes or b""
        return self._read(1)

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return self._future.result().exit_code

    @property
    def exception(self) -> _ExcType:
        """The exception of the command, `None` if it succeeded."""
        return self._future.result().exception  # type: ignore[return-value]

    @property
    def exc_info(self) -> _ExcInfo:
        """The exception of the command with its type and traceback, as in `sys.exc_info()`."""
        return self._future.result().exc_info  # type: ignore[return-value]


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def _drain(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels the remaining tasks, and closes the asynchronous generators and the executor."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
