"""The process of an operator: signals, exit codes, exits during work, invalid input, forks."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest

import kopf
from behaviour import TIMEOUT, Stage, until
from kopf.testing import KopfRunner

pytestmark = pytest.mark.native

REPETITIONS = int(os.environ.get("KOPF_TEST_EXITS", "3"))
"""Number of exits during work; about 100 in extended checks."""


class Process:
    """`kopf run` in a separate process, or the file alone."""

    def __init__(
        self, folder: pathlib.Path, code: str, *args: str, env: Any = None, alone: bool = False,
    ) -> None:
        self.path = folder / "op.py"
        self.path.write_text(textwrap.dedent(code))
        self.log = folder / "log.txt"
        command = [] if alone else ["-m", "kopf", "run", "-A", "--standalone"]
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", *command, *args, str(self.path)],
                stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
            )

    @property
    def output(self) -> str:
        return self.log.read_text()

    def sees(self, text: str, count: int = 1) -> None:
        """Waits for text in the output."""
        def check() -> bool:
            return self.output.count(text) >= count or self.process.poll() is not None
        until(check, f"{text!r} in the output")
        assert self.output.count(text) >= count, self.output

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Waits for the exit and returns the exit code."""
        try:
            return self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler prints all threads
            self.process.wait(5)
            raise AssertionError(f"the process hangs:\n{self.output[-5000:]}") from None


@contextlib.contextmanager
def running(*args: Any, **kwargs: Any) -> Iterator[Process]:
    process = Process(*args, **kwargs)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.wait()


READY = "Initial authentication has finished"

IDLE = """
    import kopf
    @kopf.on.create('kopfexamples')
    def fn(**_): pass
"""

BUSY_SYNC = """
    import kopf, time
    @kopf.on.create('kopfexamples')
    def fn(**_):
        print('busy', flush=True)
        time.sleep(1)
        print('over', flush=True)
"""

BUSY_ASYNC = """
    import asyncio, kopf
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        print('busy', flush=True)
        try:
            await asyncio.sleep(1)
        finally:
            print('over', flush=True)
"""

BLOCKED_LOOP = """
    import kopf, time
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        print('busy', flush=True)
        time.sleep(1)
        print('over', flush=True)
"""

DAEMONS = """
    import asyncio, kopf
    @kopf.daemon('kopfexamples')
    def sd(stopped, **_):
        print('busy', flush=True)
        stopped.wait()
        print('over', flush=True)
    @kopf.daemon('kopfexamples', cancellation_timeout=5)
    async def ad(**_):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            print('cancelled', flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_idle_operators(stage: Stage, tmp_path: pathlib.Path, number: int) -> None:
    with running(tmp_path, IDLE) as process:
        process.sees(READY)
        process.signal(number)
        assert process.wait() == 0
        assert f"Signal {signal.Signals(number).name} is received. Operator is stopping." in process.output
        assert "Traceback" not in process.output


@pytest.mark.parametrize("code", [BUSY_SYNC, BUSY_ASYNC, BLOCKED_LOOP, DAEMONS],
                         ids=["sync", "async", "blocked", "daemons"])
def test_signals_stop_busy_operators(stage: Stage, tmp_path: pathlib.Path, code: str) -> None:
    stage.create()
    with running(tmp_path, code) as process:
        process.sees("busy")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "over" in process.output
        assert "Traceback" not in process.output
        if code is DAEMONS:
            assert "cancelled" in process.output


@pytest.mark.parametrize("activity", ["startup", "login"])
def test_signals_stop_operators_that_start(
    stage: Stage, tmp_path: pathlib.Path, activity: str,
) -> None:
    code = f"""
        import asyncio, kopf
        @kopf.on.{activity}()
        async def fn(**_):
            print('busy', flush=True)
            await asyncio.sleep(100)
    """
    with running(tmp_path, code) as process:
        process.sees("busy")
        process.signal(signal.SIGINT)
        assert process.wait() == 0


def test_operators_under_nohup_survive_their_terminal(stage: Stage, tmp_path: pathlib.Path) -> None:
    code = IDLE.replace("import kopf", "import kopf, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)")
    with running(tmp_path, code) as process:
        process.sees(READY)
        process.signal(signal.SIGHUP)
        name = stage.create()
        stage.handled(name)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0


def test_second_signals_exit_immediately(stage: Stage, tmp_path: pathlib.Path) -> None:
    stage.create()
    with running(tmp_path, BUSY_SYNC.replace("sleep(1)", "sleep(100)")) as process:
        process.sees("busy")
        process.signal(signal.SIGINT)
        process.sees("Signal SIGINT is received")
        time.sleep(0.2)  # the same signal is ignored for a moment
        process.signal(signal.SIGINT)
        assert process.wait() == 1


def test_exits_in_handlers_are_exit_codes(stage: Stage, tmp_path: pathlib.Path) -> None:
    stage.create()
    code = """
        import kopf, sys
        @kopf.on.create('kopfexamples')
        def fn(**_):
            sys.exit(7)
    """
    with running(tmp_path, code) as process:
        assert process.wait() == 7


def test_hard_exits_in_handlers(stage: Stage, tmp_path: pathlib.Path) -> None:
    stage.create()
    code = """
        import kopf, os
        @kopf.on.create('kopfexamples')
        async def fn(**_):
            os._exit(8)
    """
    with running(tmp_path, code) as process:
        assert process.wait() == 8


CHURN = """
    import asyncio, kopf, time, os
    @kopf.index('kopfexamples')
    def idx(name, **_): return {name: 1}
    @kopf.on.create('kopfexamples', when=lambda **_: True)
    def s(retry, **_):
        time.sleep(0.001)
        raise kopf.TemporaryError('again', delay=0)
    @kopf.on.create('kopfexamples')
    async def a(retry, logger, **_):
        logger.info('a record')
        await asyncio.sleep(0.001)
        raise kopf.TemporaryError('again', delay=0)
    @kopf.timer('kopfexamples', interval=0.01)
    def t(**_): return time.time()
    @kopf.timer('kopfexamples', interval=0.01)
    async def u(patch, **_): patch.status['u'] = time.time()
    @kopf.daemon('kopfexamples')
    def d(stopped, **_):
        stopped.wait()
"""


@pytest.mark.parametrize("way", ["SIGTERM", "sys.exit", "main-returns"])
def test_exits_during_work(stage: Stage, tmp_path: pathlib.Path, way: str) -> None:
    for _ in range(3):
        stage.create()
    extra = {
        "SIGTERM": "",
        "sys.exit": (
            "    @kopf.on.event('kopfexamples')\n"
            "    def e(memo, **_):\n"
            "        memo.n = memo.get('n', 0) + 1\n"
            "        if memo.n > 5: raise SystemExit(0)\n"
        ),
        # The loop and the operator run in a daemon thread, which the interpreter abandons.
        "main-returns": (
            "    import threading, sys\n"
            "    def run():\n"
            "        kopf.run(clusterwide=True, standalone=True)\n"
            "    threading.Thread(target=run, daemon=True).start()\n"
            "    time.sleep(1.2)\n"
            "    sys.exit(0)\n"
        ),
    }[way]
    for number in range(max(1, REPETITIONS // 3)):
        with running(tmp_path, CHURN + extra, env={"PYTHONFAULTHANDLER": "1"}) as process:
            if way == "SIGTERM":
                process.sees("again")
                time.sleep(0.01 * (number % 20))
                process.signal(signal.SIGTERM)
            code = process.wait()
            assert code == 0, f"exit {number}: code {code}\n{process.output[-5000:]}"
            assert "panicked" not in process.output and "Fatal Python error" not in process.output


ABANDONED = """
    import asyncio, kopf, sys
    @kopf.daemon('kopfexamples')
    def d(stopped, **_):
        loop.call_soon_threadsafe(loop.stop)
        stopped.wait()
        print('over', flush=True)
    loop = asyncio.new_event_loop()
    task = loop.create_task(kopf.operator(clusterwide=True, standalone=True))
    loop.run_forever()
    sys.exit(0)
"""


def test_abandoned_loops_do_not_block_the_exit(stage: Stage, tmp_path: pathlib.Path) -> None:
    stage.create()
    with running(tmp_path, ABANDONED) as process:
        assert process.wait() == 0
        assert "over" in process.output


def test_processes_that_do_not_exit_are_killed(stage: Stage, tmp_path: pathlib.Path) -> None:
    stage.create()
    code = """
        import kopf, time
        @kopf.on.startup()
        def startup(settings, **_):
            settings.process.ultimate_exiting_timeout = 0.5
        @kopf.on.create('kopfexamples')
        def fn(**_):
            print('busy', flush=True)
            time.sleep(100)
    """
    with running(tmp_path, code) as process:
        process.sees("busy")
        process.signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGKILL


FORKS = """
    import kopf, multiprocessing, os, subprocess, sys, threading, warnings
    warnings.simplefilter('ignore')

    def child(queue):
        queue.put('from the child')

    @kopf.on.create('kopfexamples', id='fork')
    def forks(body, **_):
        pid = os.fork()
        if pid == 0:
            try:
                kopf.info(body, reason='Lost', message='nobody would post it')
            except RuntimeError:
                os._exit(5)
            os._exit(6)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @kopf.on.create('kopfexamples', id='exit')
    def exits(**_):
        pid = os.fork()
        if pid == 0:
            sys.exit(9)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @kopf.on.create('kopfexamples', id='raise')
    def raises(**_):
        pid = os.fork()
        if pid == 0:
            raise ValueError('in the child')
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @kopf.on.create('kopfexamples', id='return')
    async def returns(**_):
        import asyncio
        pid = os.fork()
        if pid == 0:
            return 'not a result'
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        return os.waitstatus_to_exitcode(status)

    @kopf.on.create('kopfexamples', id='mp')
    def processes(**_):
        context = multiprocessing.get_context('fork')
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        result = queue.get(timeout=10)
        process.join(10)
        return result

    @kopf.on.create('kopfexamples', id='run')
    async def runs(**_):
        import asyncio
        process = await asyncio.create_subprocess_exec(sys.executable, '-c', 'exit(3)')
        return await process.wait()
"""


def test_forks_in_handlers(stage: Stage, tmp_path: pathlib.Path) -> None:
    name = stage.create()
    with running(tmp_path, FORKS) as process:
        obj = stage.handled(name)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "ValueError: in the child" in process.output
    assert obj["status"] == {
        "fork": 5, "exit": 9, "raise": 1, "return": 0, "mp": "from the child", "run": 3,
    }


def check_load(tmp_path: pathlib.Path, code: str, *args: str) -> tuple[int, str]:
    with running(tmp_path, code, *args) as process:
        return process.wait(), process.output


@pytest.mark.parametrize("code, message", [
    ("def broken(:", "SyntaxError"),
    ("import absent_module", "No module named 'absent_module'"),
    ("raise ValueError('at import')", "ValueError: at import"),
    ("import kopf\nkopf.on.create('kex')(5)", "Cannot get id of 5"),
    ("import kopf\n@kopf.on.create('kex', timeout='x')\ndef fn(**_): pass", "timeout"),
    ("import kopf\n@kopf.on.create('kex', errors='x')\ndef fn(**_): pass", "errors"),
    ("import kopf\n@kopf.on.create('kex', bogus=1)\ndef fn(**_): pass", "bogus"),
    ("import kopf\n@kopf.on.create('kex', retries=-1.5)\ndef fn(**_): pass", "retries"),
    ("import kopf\n@kopf.on.create()\ndef fn(**_): pass", "Unspecific"),
    ("import kopf\n@kopf.timer('kex', interval=-1)\ndef fn(**_): pass", "interval"),
], ids=["syntax", "module", "import", "callable", "timeout", "errors", "option", "retries",
        "selector", "interval"])
def test_invalid_files_are_reported(
    stage: Stage, tmp_path: pathlib.Path, code: str, message: str,
    clean_logging: None, clean_imports: None,
) -> None:
    path = tmp_path / "op.py"
    path.write_text(code)
    with KopfRunner(["run", "-A", "--standalone", str(path)], reraise=False, timeout=TIMEOUT) as runner:
        until(runner.future.done, "the end")
    assert runner.exit_code == 1
    assert message in f"{type(runner.exception).__name__}: {runner.exception}"


def test_invalid_files_are_reported_in_the_last_line(stage: Stage, tmp_path: pathlib.Path) -> None:
    status, output = check_load(tmp_path, "def broken(:")
    assert status == 1
    assert "SyntaxError" in output.splitlines()[-1]


def test_missing_files_and_options_are_reported(stage: Stage, tmp_path: pathlib.Path) -> None:
    status, output = check_load(tmp_path, "", str(tmp_path / "absent.py"))
    assert status == 1 and "absent.py" in output
    status, output = check_load(tmp_path, "", "--bogus")
    assert status == 2 and "No such option" in output
    status, output = check_load(tmp_path, "", "-m", "absent.module")
    assert status == 1 and "absent" in output
    status, output = check_load(tmp_path, "", "--liveness", "nonsense")
    assert status == 2 and "nonsense" in output


def test_missing_kubeconfigs_are_reported(stage: Stage, tmp_path: pathlib.Path) -> None:
    env = {"KUBECONFIG": str(tmp_path / "absent")}
    with running(tmp_path, IDLE, env=env) as process:
        assert process.wait() == 1
        assert process.output.splitlines()[-1].startswith("Error: the operator cannot log in")
