"""The table of differences in docs/migrate/differences-python.md: every row has a test."""

from __future__ import annotations

import ast
import asyncio
import concurrent.futures
import logging
import pathlib
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import kopf
from behaviour import TIMEOUT, Stage, until

TESTS = pathlib.Path(__file__).parent
GUIDE = TESTS.parents[1] / "docs" / "migrate" / "differences-python.md"

#: The test of each row, by the start of its first column.
TESTED = {
    "log messages as Kubernetes events": "test_behaviour_records.py::test_records_are_events",
    "changes during handling": "test_differences.py::test_changes_during_handling_are_not_missed",
    "`timeout=` of async handlers": "test_behaviour_outcomes.py::test_timeouts_cancel_coroutines",
    "sync daemons": "test_differences.py::test_sync_daemons_do_not_starve_handlers",
    "settings changed after startup": "test_fixing.py::test_changed_settings_are_reported_once",
    "misspelt settings": "test_settings.py::test_misspelt_names_raise_with_the_meant_one",
    "handlers registered after startup": "test_fixing.py::test_late_handlers_are_reported",
    "results and patches that are not": "test_behaviour_outcomes.py::test_other_results_fail_the_handler",
    "keys of results and patches": "test_behaviour_outcomes.py::test_keys_of_patches_become_strings",
    "signals": "test_behaviour_failures.py::test_second_signals_exit_immediately_from_blocked_loops",
    "blocking functions at the exit": "test_behaviour_shutdown.py::test_blocking_functions_do_not_block_the_exit",
    "cancelling all tasks": "test_behaviour_shutdown.py::test_cancelled_tasks_end_the_operator_with_an_error",
    "`kopf.AiohttpSession`": "test_behaviour_storages.py::test_logins_without_credentials_stop_the_operator",
    "patching of the HTTP layer": "test_shims.py::test_http_layer_is_missing_with_advice",
    "TLS to the API server": "test_differences.py::test_old_versions_of_tls_are_rejected",
    "`context=` of webhook servers": "test_webhooks.py::test_aiohttp_variant",
    "order of keys in the last": "test_behaviour_key_order.py::test_old_states_have_the_stored_order",
    "readiness": "test_behaviour_records.py::test_readiness_is_logged_with_the_watched_resources",
    "files without handlers": "test_loaders.py::test_files_without_handlers_are_reported",
    "`@kopf.on.create` without": "test_loaders.py::test_decorators_without_parentheses_are_errors",
    "`memories=`": "test_differences.py::test_internal_arguments_are_ignored_with_a_warning",
    "errors in handler files": "test_behaviour_process.py::test_invalid_files_are_reported_in_the_last_line",
    "errors that end the operator": "test_behaviour_failures.py::test_failed_startups_end_with_one_line",
    "invalid endpoints and namespaces": "test_cli.py::test_invalid_options_are_usage_errors",
    "`kopf freeze`": "test_differences.py::test_freezing_both_scopes_is_a_usage_error",
    "values of Secrets": "test_differences.py::test_values_of_secrets_are_redacted",
    "records of `LocalObjectLogger`": "test_differences.py::test_local_records_have_the_place_of_the_caller",
}


def rows() -> list[str]:
    """Returns the first column of the table."""
    text = GUIDE.read_text()
    table = text.partition("### Differences\n")[2].partition("\n#")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [line.split(" | ")[0].removeprefix("| ") for line in lines[1:]]


@pytest.mark.parametrize("row", rows())
def test_every_row_has_a_test(row: str) -> None:
    [test] = [test for topic, test in TESTED.items() if row.startswith(topic)]
    file, _, name = test.partition("::")
    functions = ast.walk(ast.parse((TESTS / file).read_text()))
    assert name in {getattr(function, "name", None) for function in functions}


def test_every_test_has_a_row() -> None:
    assert [topic for topic in TESTED if not any(row.startswith(topic) for row in rows())] == []


@pytest.mark.native
def test_changes_during_handling_are_not_missed(stage: Stage) -> None:
    seen: list[tuple[str, str]] = []
    may_finish = threading.Event()

    @kopf.on.create("kopfexamples", id="quick")
    def quick(spec: Any, **_: Any) -> None:
        seen.append(("quick", spec["field"]))

    @kopf.on.create("kopfexamples", id="slow")
    def slow(spec: Any, **_: Any) -> None:
        if not may_finish.is_set():
            raise kopf.TemporaryError("not yet", delay=0.05)
        seen.append(("slow", spec["field"]))

    @kopf.on.update("kopfexamples", id="update")
    def update(old: Any, new: Any, **_: Any) -> None:
        seen.append(("update", f"{old['spec']['field']} to {new['spec']['field']}"))

    with stage.operator():
        name = stage.create({"field": "a"})
        until(lambda: ("quick", "a") in seen, "the call of the quick handler")
        stage.patch(name, {"spec": {"field": "b"}})
        may_finish.set()
        until(lambda: ("update", "a to b") in seen, "the update")


@pytest.mark.native
def test_values_of_secrets_are_redacted(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    @kopf.on.create("secrets", annotations={"redacted": "yes"})
    def created(body: Any, **_: Any) -> None:
        seen.append(body["data"]["key"])

    with caplog.at_level(logging.DEBUG), stage.operator():
        stage.cluster.create({
            "apiVersion": "v1", "kind": "Secret", "data": {"key": "aHVudGVyMg=="},
            "metadata": {"name": "redacted", "annotations": {"redacted": "yes"}},
        })
        until(lambda: seen, "the call of the handler")
    assert seen == ["aHVudGVyMg=="]
    assert any("redacted" in message for message in caplog.messages)
    assert not [message for message in caplog.messages if "aHVudGVyMg" in message]


@pytest.mark.native
@pytest.mark.parametrize("is_own", [False, True], ids=["default", "own"])
def test_sync_daemons_do_not_starve_handlers(stage: Stage, is_own: bool) -> None:
    threads: list[str] = []

    @kopf.daemon("kopfexamples")
    def daemon(stopped: Any, **_: Any) -> None:
        threads.append(threading.current_thread().name)
        stopped.wait(TIMEOUT)

    @kopf.on.event("kopfexamples", id="fn")
    def handler(**_: Any) -> None:
        threads.append(threading.current_thread().name)

    settings = kopf.OperatorSettings()
    if is_own:
        settings.execution.executor = concurrent.futures.ThreadPoolExecutor(
            max_workers=2, thread_name_prefix="own")
    else:
        settings.execution.max_workers = 1
    with stage.operator(settings=settings):
        stage.create()
        until(lambda: len(threads) >= 2, "the calls of both")
    daemons = [name for name in threads if name.startswith("kopf-daemon")]
    assert len(daemons) == (0 if is_own else 1)
    assert all(name.startswith("own") for name in threads) is is_own


@pytest.fixture
def old_server(tmp_path: pathlib.Path) -> Iterator[str]:
    """A server with TLS 1.1 as its newest version. Yields its URL."""
    from kopf import _kopf

    certificate, key = _kopf.build_certificate(["localhost", "127.0.0.1"])
    path = tmp_path / "cert.pem"
    path.write_bytes(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.native
def test_old_versions_of_tls_are_rejected(
    stage: Stage, old_server: str, records: pytest.LogCaptureFixture,
) -> None:
    @kopf.on.login()
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=old_server, insecure=True)

    kopf.on.create("kopfexamples", id="fn")(lambda **_: None)
    with stage.operator(fails=True) as operator:
        operator.join()
    assert operator.exception is not None
    assert "ProtocolVersion" in f"{records.text}{operator.exception}"


@pytest.mark.native
@pytest.mark.parametrize("name", ["memories", "insights", "vault"])
async def test_internal_arguments_are_ignored_with_a_warning(stage: Stage, name: str) -> None:
    stop = asyncio.Event()
    stop.set()
    argument: dict[str, Any] = {name: object()}
    with pytest.warns(RuntimeWarning, match=f"{name}= is internal and has no effect"):
        await kopf.operator(clusterwide=True, standalone=True, stop_flag=stop, **argument)


def test_freezing_both_scopes_is_a_usage_error() -> None:
    from click.testing import CliRunner

    from kopf import cli

    result = CliRunner().invoke(cli.main, ["freeze", "-n", "a", "-A", "-P", "x", "-t", "1"])
    assert result.exit_code == 2
    assert "Either --namespace or --all-namespaces can be used, not both." in result.output


@pytest.mark.native
def test_local_records_have_the_place_of_the_caller(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    @kopf.on.event("kopfexamples")
    def caller(logger: Any, **_: Any) -> None:
        logger.info("a local record")

    def found() -> Any:
        return [record for record in records.records if record.getMessage() == "a local record"]

    with stage.operator():
        stage.create()
        until(found, "the record")
    assert {(record.pathname, record.funcName) for record in found()} == {(__file__, "caller")}
