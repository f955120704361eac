"""KopfRunner with a cluster."""

from __future__ import annotations

from typing import Any

import pytest

import kopf
from behaviour import TIMEOUT, Stage, until
from kopf.testing import KopfRunner

pytestmark = pytest.mark.native


def test_runner_with_a_cluster(stage: Stage, tmp_path: Any, clean_logging: None) -> None:
    path = tmp_path / "op.py"
    path.write_text(
        "import kopf\n"
        "@kopf.on.create('kopfexamples')\n"
        "def fn(logger, **_):\n"
        "    logger.info('hello from the handler')\n"
    )
    with KopfRunner(["run", "-A", "--standalone", str(path)], timeout=TIMEOUT) as runner:
        name = stage.create()
        stage.handled(name)
    assert runner.exit_code == 0
    assert runner.exception is None
    assert f"[default/{name}] hello from the handler" in runner.output


def test_runs_do_not_share_handlers(stage: Stage, tmp_path: Any, clean_logging: None) -> None:
    """Files are executed in every run; modules only once per process."""
    module = tmp_path / "module_of_runs.py"
    module.write_text(
        "import kopf\n"
        "@kopf.on.create('kopfexamples')\n"
        "def module_fn(logger, **_): logger.info('hello from the module')\n"
    )
    path = tmp_path / "op.py"
    path.write_text(
        "import kopf, module_of_runs\n"
        "@kopf.on.startup()\n"
        "def startup(logger, **_): logger.info('hello from the startup')\n"
        "@kopf.on.create('kopfexamples')\n"
        "def fn(logger, **_): logger.info('hello from the file')\n"
    )
    before = kopf.get_default_registry()
    for _ in range(3):
        with KopfRunner(["run", "-A", "--standalone", str(path)], timeout=TIMEOUT) as runner:
            stage.handled(stage.create())
        assert runner.output.count("hello from the startup") == 1
        assert runner.output.count("hello from the file") == 1
        assert runner.output.count("hello from the module") == 1
    assert kopf.get_default_registry() is before
    handlers = [handler.id for handler in before._changing.get_all_handlers()]
    assert handlers == ["module_fn"]


def test_output_is_readable_while_the_operator_runs(
    stage: Stage, tmp_path: Any, clean_logging: None,
) -> None:
    path = tmp_path / "op.py"
    path.write_text(
        "import kopf\n"
        "@kopf.on.create('kopfexamples')\n"
        "def fn(logger, **_):\n"
        "    logger.info('a record')\n"
        "    print('a line')\n"
    )
    with KopfRunner(["run", "-A", "--standalone", str(path)], timeout=TIMEOUT) as runner:
        stage.create()
        until(lambda: "a record" in runner.output and "a line" in runner.output, "the output")
        assert "a line" in runner.stdout and "a line" not in runner.stderr
        assert b"a record" in runner.stderr_bytes and b"a record" not in runner.stdout_bytes
        assert not runner.future.done()
    assert "a record" in runner.output and "a line" in runner.output


def test_runner_with_a_failing_operator(stage: Stage, tmp_path: Any, clean_logging: None) -> None:
    path = tmp_path / "op.py"
    path.write_text(
        "import kopf\n"
        "@kopf.on.startup()\n"
        "def fn(**_):\n"
        "    raise kopf.PermanentError('no start')\n"
    )
    runner = KopfRunner(["run", "-A", "--standalone", str(path)], timeout=TIMEOUT, reraise=False)
    with runner:
        until(runner.future.done, "the end")
    assert runner.exit_code != 0
    assert runner.exception is not None
    assert "no start" in runner.output
