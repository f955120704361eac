"""KopfRunner with commands that need no cluster."""

from __future__ import annotations

import asyncio
import pathlib
import time

import pytest

from kopf._front.bridge import running
from kopf.testing import KopfRunner

pytestmark = pytest.mark.usefixtures("clean_imports", "clean_logging")


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the operator with one that waits for the stop flag."""

    def run(*, stop_flag, loop, **_):  # type: ignore[no-untyped-def]
        async def main() -> None:
            assert asyncio.get_running_loop() is loop
            await asyncio.to_thread(stop_flag.wait)

        loop.run_until_complete(main())

    monkeypatch.setattr(running, "run", run)


def script(folder: pathlib.Path, code: str) -> str:
    path = folder / "x.py"
    path.write_text(code)
    return str(path)


def test_operators_are_stopped_at_the_exit(operator: None, tmp_path: pathlib.Path) -> None:
    code = "import kopf; kopf.on.create('x', id='x')(print); print('loaded')"
    with KopfRunner(["run", "-A", script(tmp_path, code)], timeout=10) as runner:
        assert not runner.future.done()
    assert runner.exit_code == 0
    assert runner.exception is None
    assert runner.stdout == "loaded\n"
    assert runner.stdout_bytes == b"loaded\n"
    assert runner.output == "loaded\n"
    assert runner.stderr == ""
    assert runner.stderr_bytes == b""
    assert runner.exc_info[0] is SystemExit


def test_failures_are_raised(tmp_path: pathlib.Path) -> None:
    runner = KopfRunner(["run", "-A", script(tmp_path, "raise ValueError('boom')")])
    with pytest.raises(ValueError, match="boom"), runner:
        pass
    assert runner.exit_code == 1
    assert isinstance(runner.exception, ValueError)


def test_failures_are_chained_to_those_of_the_body(tmp_path: pathlib.Path) -> None:
    runner = KopfRunner(["run", "-A", script(tmp_path, "raise ValueError('boom')")])
    with pytest.raises(ValueError, match="boom") as caught, runner:
        raise RuntimeError("body")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_failures_are_kept_on_request(tmp_path: pathlib.Path) -> None:
    path = script(tmp_path, "raise ValueError('boom')")
    with KopfRunner(["run", "-A", path], reraise=False) as runner:
        pass
    assert runner.exit_code == 1
    assert isinstance(runner.exception, ValueError)


def test_exceptions_of_the_body_are_raised(operator: None) -> None:
    with pytest.raises(RuntimeError, match="body"), KopfRunner(["run", "-A"]) as runner:
        raise RuntimeError("body")
    assert runner.exit_code == 0


def test_invalid_options_exit_with_2() -> None:
    with pytest.raises(SystemExit), KopfRunner(["run", "--bogus"]) as runner:
        pass
    assert runner.exit_code == 2
    assert "No such option" in runner.output


def test_operators_that_do_not_stop_are_reported(tmp_path: pathlib.Path) -> None:
    path = script(tmp_path, "import time; time.sleep(2)")
    runner = KopfRunner(["run", "-A", path], timeout=0.1)
    with pytest.raises(Exception, match="The operator didn't stop, still running."), runner:
        pass
    runner._thread.join()


def test_current_loop_is_available_to_handler_files(operator: None, tmp_path: pathlib.Path) -> None:
    path = script(
        tmp_path, "import asyncio; loop = asyncio.get_event_loop_policy().get_event_loop()"
    )
    with KopfRunner(["run", "-A", path], timeout=10) as runner:
        pass
    assert runner.exit_code == 0


def test_arguments_can_be_a_string(operator: None) -> None:
    with KopfRunner("run -A", timeout=10, env={"KOPF_RUN_VERBOSE": "true"}) as runner:
        time.sleep(0)
    assert runner.exit_code == 0
