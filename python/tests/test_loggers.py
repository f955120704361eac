"""Loggers of objects: extras, levels, formats. Expected results are those of Kopf 1.45.2."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kopf._front.bridge import loggers
from kopf._front.bridge.loggers import (
    LocalObjectLogger,
    LogFormat,
    ObjectLogger,
    TerseObjectLogger,
    configure,
    make_formatter,
)

pytestmark = pytest.mark.usefixtures("clean_logging")

REF = {"apiVersion": "g/v1", "kind": "K", "name": "n", "uid": "u", "namespace": "ns"}


def body(**changes: Any) -> Any:
    metadata = {"name": "n", "namespace": "ns", "uid": "u", **changes}
    return {"apiVersion": "g/v1", "kind": "K", "metadata": metadata}


def settings(**changes: Any) -> Any:
    posting = {"enabled": True, "loggers": True, "level": logging.INFO, **changes}
    return SimpleNamespace(posting=SimpleNamespace(**posting))


@pytest.fixture
def stderr(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    return lambda: capsys.readouterr().err


@pytest.fixture
def records() -> list[logging.LogRecord]:
    found: list[logging.LogRecord] = []

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    root = logging.getLogger()
    root.addHandler(Recorder())
    root.setLevel(logging.DEBUG)
    return found


def test_records_carry_the_object_and_settings(records: list[Any]) -> None:
    chosen = settings()
    ObjectLogger(body=body(), settings=chosen).info("hello %s", "world", extra={"x": 1})
    (record,) = records
    assert record.name == "kopf.objects"
    assert record.getMessage() == "hello world"
    assert record.k8s_ref == REF
    assert record.k8s_skip is False
    assert record.settings is chosen
    assert record.x == 1
    assert record.filename == "test_loggers.py"


def test_extras_of_calls_take_precedence(records: list[Any]) -> None:
    ObjectLogger(body=body(), settings=settings()).info("m", extra={"k8s_skip": True})
    assert records[0].k8s_skip is True


def test_local_records_are_always_skipped_by_posting(records: list[Any]) -> None:
    LocalObjectLogger(body=body(), settings=settings()).info("m", extra={"k8s_skip": False})
    assert records[0].k8s_skip is True
    assert records[0].filename == "test_loggers.py"


def test_missing_identity_is_none(records: list[Any]) -> None:
    ObjectLogger(body={}, settings=settings()).info("m")
    assert records[0].k8s_ref == dict.fromkeys(REF)


@pytest.mark.parametrize(
    ("level", "enabled"),
    [
        (1, [11, 15, 20, 25, 30, 40]),
        (10, [20, 25, 30, 40]),
        (11, [25, 30, 40]),
        (20, [30, 40]),
        (40, [40]),
    ],
)
def test_terse_loggers_demote_messages_below_warnings(level: int, enabled: list[int]) -> None:
    logging.getLogger().setLevel(level)
    terse = TerseObjectLogger(body=body(), settings=settings())
    assert [n for n in (5, 10, 11, 15, 20, 25, 30, 40) if terse.isEnabledFor(n)] == enabled


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({}, logging.INFO),
        ({"debug": True}, logging.DEBUG),
        ({"verbose": True}, logging.DEBUG),
        ({"quiet": True}, logging.WARNING),
        ({"debug": True, "quiet": True}, logging.DEBUG),
        ({"verbose": True, "quiet": True}, logging.DEBUG),
    ],
)
def test_levels_of_configuring(options: dict[str, bool], level: int) -> None:
    configure(**options)  # type: ignore[arg-type]
    assert logging.getLogger().level == level
    assert logging.getLogger("asyncio").propagate is bool(options.get("debug"))


def test_configuring_again_replaces_only_the_own_handler() -> None:
    theirs = logging.NullHandler()
    logging.getLogger().addHandler(theirs)
    configure()
    configure()
    ours = [h for h in logging.getLogger().handlers if type(h) is loggers._KopfStreamHandler]
    assert len(ours) == 1
    assert theirs in logging.getLogger().handlers


@pytest.mark.parametrize(
    ("prefix", "changes", "expected"),
    [
        (False, {}, "hello w\n"),
        (True, {}, "[ns/n] hello w\n"),
        (None, {}, "[ns/n] hello w\n"),
        (True, {"namespace": None}, "[n] hello w\n"),
    ],
)
def test_plain_format(
    stderr: Callable[[], str], prefix: bool | None, changes: dict[str, Any], expected: str
) -> None:
    configure(log_format=LogFormat.PLAIN, log_prefix=prefix)
    ObjectLogger(body=body(**changes), settings=settings()).info("hello %s", "w")
    assert stderr() == expected


def test_full_format(stderr: Callable[[], str]) -> None:
    configure()
    logging.getLogger("kopf.activities.authentication").warning("m")
    assert stderr().endswith("] kopf.activities.auth [WARNING ] m\n")


def test_prefixes_do_not_leak_to_other_handlers(
    stderr: Callable[[], str], records: list[logging.LogRecord]
) -> None:
    configure(log_prefix=True)
    ObjectLogger(body=body(), settings=settings()).info("100%")
    assert "[ns/n] 100%" in stderr()
    assert records[0].getMessage() == "100%"


def test_records_without_a_reference_have_no_prefix(stderr: Callable[[], str]) -> None:
    configure(log_format=LogFormat.PLAIN, log_prefix=True)
    logging.getLogger("x").info("one")
    logging.getLogger("x").info("two", extra={"k8s_ref": None})
    assert stderr() == "one\ntwo\n"


def test_custom_format_strings_are_accepted(stderr: Callable[[], str]) -> None:
    configure(log_format="%(levelname)s-%(message)s", log_prefix=None)  # type: ignore[arg-type]
    ObjectLogger(body=body(), settings=settings()).info("m")
    assert stderr() == "INFO-[ns/n] m\n"


def test_other_formats_are_rejected() -> None:
    with pytest.raises(ValueError, match="Unsupported log format: 3"):
        make_formatter(3)  # type: ignore[arg-type]


def test_json_format(stderr: Callable[[], str]) -> None:
    configure(log_format=LogFormat.JSON, log_prefix=None)
    ObjectLogger(body=body(), settings=settings()).warning("m", extra={"x": 1})
    data = json.loads(stderr())
    assert data.pop("timestamp")
    assert data == {"message": "m", "object": REF, "severity": "warn", "x": 1}


def test_json_format_with_prefix_and_key(stderr: Callable[[], str]) -> None:
    configure(log_format=LogFormat.JSON, log_prefix=True, log_refkey="ref")
    ObjectLogger(body=body(namespace=None), settings=settings()).info("m")
    data = json.loads(stderr())
    assert data["message"] == "[n] m"
    assert data["ref"]["namespace"] is None
    assert "object" not in data


@pytest.mark.parametrize(
    ("level", "severity"),
    [(5, "debug"), (10, "debug"), (20, "info"), (25, "warn"), (30, "warn"), (35, "error"),
     (40, "error"), (45, "fatal"), (50, "fatal")],
)  # fmt: skip
def test_json_severities(stderr: Callable[[], str], level: int, severity: str) -> None:
    configure(log_format=LogFormat.JSON)
    logging.getLogger().setLevel(1)
    logging.getLogger("x").log(level, "m")
    assert json.loads(stderr())["severity"] == severity


def test_records_after_the_end_of_the_stream_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.Handler, "handleError", lambda self, record: failed.append(record))
    configure()
    (handler,) = (h for h in logging.getLogger().handlers if type(h) is loggers._KopfStreamHandler)
    handler.setStream(io.StringIO())
    handler.stream.close()
    logging.getLogger("x").info("m")
    assert failed == []


def post(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    posted: list[tuple[Any, ...]] = []
    module = SimpleNamespace(post_record=lambda *args: posted.append(args))
    monkeypatch.setitem(sys.modules, "kopf._front.objects.current", module)  # type: ignore[arg-type]
    monkeypatch.setattr("kopf._front.objects.current", module, raising=False)
    logging.getLogger().setLevel(logging.DEBUG)
    return posted


def test_records_of_objects_are_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    posted = post(monkeypatch)
    ObjectLogger(body=body(namespace=None), settings=settings()).info("m")
    ref = {key: value for key, value in REF.items() if key != "namespace"}
    assert posted == [(ref, logging.INFO, "m")]


def test_posted_errors_have_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    posted = post(monkeypatch)
    try:
        raise ValueError("boom")
    except ValueError:
        ObjectLogger(body=body(), settings=settings()).exception("m")
    assert posted[0][2].startswith("m\nTraceback")
    assert posted[0][2].endswith("ValueError: boom")


@pytest.mark.parametrize(
    "changes", [{"enabled": False}, {"loggers": False}, {"level": logging.WARNING}]
)
def test_settings_prevent_posting(monkeypatch: pytest.MonkeyPatch, changes: Any) -> None:
    posted = post(monkeypatch)
    ObjectLogger(body=body(), settings=settings(**changes)).info("m")
    LocalObjectLogger(body=body(), settings=settings()).info("m")
    logging.getLogger("kopf.objects").info("without an object")
    assert posted == []


def test_json_formatters_are_not_loaded_in_advance() -> None:
    import subprocess

    code = "import sys, kopf._front.bridge.loggers; sys.exit('pythonjsonlogger' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


HOSTILE = "a\nb\r\x0b\x0c\x1b[1m\x1c\x7f\x85\x9b\u2028\u2029\u202e\u2066\u200f\tü"
ESCAPED = (r"a\nb\x0d\x0b\x0c\x1b[1m\x1c\x7f\x85\x9b\u2028\u2029\u202e\u2066\u200f" "\tü")


@pytest.mark.parametrize("log_format", [LogFormat.FULL, LogFormat.PLAIN])
@pytest.mark.parametrize("prefix", [True, False])
def test_records_are_one_line(
    stderr: Callable[[], str], log_format: LogFormat, prefix: bool, records: list[Any],
) -> None:
    configure(log_format=log_format, log_prefix=prefix)
    ObjectLogger(body=body(name="n\nx"), settings=settings()).info("%s", HOSTILE)
    text = stderr()
    assert text.endswith(ESCAPED + "\n"), text
    assert len(text.splitlines()) == 1
    assert records[0].getMessage() == HOSTILE, "other handlers get the record as it is"


@pytest.mark.parametrize("log_format", [LogFormat.FULL, LogFormat.PLAIN])
def test_tracebacks_are_indented(stderr: Callable[[], str], log_format: LogFormat) -> None:
    configure(log_format=log_format)
    logger = ObjectLogger(body=body(), settings=settings())
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("failed", stack_info=True)
    first, *rest = stderr().splitlines()
    assert first.endswith("failed")
    assert len(rest) > 4
    assert all(line.startswith("    ") for line in rest), rest
    assert any(line.endswith("ValueError: a") for line in rest), rest


def test_tracebacks_of_other_formatters_are_indented() -> None:
    formatter = make_formatter(LogFormat.PLAIN)
    try:
        raise ValueError("x\ny")
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "", 0, "m", (), sys.exc_info())
    plain = logging.Formatter().format(record)
    assert "\nValueError: x\ny" in plain
    lines = formatter.format(record).split("\n")
    assert lines[0] == "m" and all(line.startswith("    ") for line in lines[1:])
    assert logging.Formatter().format(record) == plain
