"""Log records and k8s-events."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native


@pytest.fixture
def output(clean_logging: None) -> Any:
    """Configures logging like the command line; returns the output."""
    def configure(**kwargs: Any) -> io.StringIO:
        stream = io.StringIO()
        before = set(logging.getLogger().handlers)
        kopf.configure(**kwargs)
        for handler in set(logging.getLogger().handlers) - before:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(stream)
        return stream
    return configure


def declare() -> None:
    @kopf.on.create("kopfexamples", id="fn")
    def fn(logger: Any, **_: Any) -> None:
        logger.debug("debugged")
        logger.info("informed %s", "well")
        logger.warning("warned")
        logging.getLogger("own.logger").info("mine")


def run(stage: Stage) -> str:
    with stage.operator():
        name = stage.create()
        stage.handled(name)
    return name


def test_records_of_users_and_of_the_engine(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    declare()
    name = run(stage)
    texts = [(r.name, r.levelname, r.getMessage()) for r in records.records]
    assert ("kopf.objects", "DEBUG", "debugged") in texts
    assert ("kopf.objects", "INFO", "informed well") in texts
    assert ("own.logger", "INFO", "mine") in texts
    assert ("kopf.objects", "INFO", "Handler 'fn' succeeded.") in texts
    assert ("kopf.objects", "DEBUG", "Handler 'fn' is invoked.") in texts
    invoked = texts.index(("kopf.objects", "DEBUG", "Handler 'fn' is invoked."))
    informed = texts.index(("kopf.objects", "INFO", "informed well"))
    succeeded = texts.index(("kopf.objects", "INFO", "Handler 'fn' succeeded."))
    assert invoked < informed < succeeded
    for record in records.records:
        if record.name == "kopf.objects":
            ref = record.k8s_ref  # type: ignore[attr-defined]
            assert ref["name"] == name and ref["kind"] == "KopfExample" and ref["uid"]


def test_plain_prefixed_output(stage: Stage, output: Any) -> None:
    declare()
    stream = output(verbose=True, log_prefix=True)
    name = run(stage)
    assert f"[default/{name}] informed well" in stream.getvalue()
    assert f"[default/{name}] debugged" in stream.getvalue()


def test_quiet_output(stage: Stage, output: Any) -> None:
    declare()
    stream = output(quiet=True)
    run(stage)
    assert "warned" in stream.getvalue()
    assert "informed" not in stream.getvalue() and "succeeded" not in stream.getvalue()


def test_json_output(stage: Stage, output: Any) -> None:
    declare()

    @kopf.on.create("kopfexamples", id="bad", errors=kopf.ErrorsMode.PERMANENT)
    def bad(**_: Any) -> None:
        raise ValueError("boo")

    stream = output(log_format=kopf.LogFormat.JSON, log_refkey="ref")
    name = run(stage)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    [line] = [line for line in lines if line["message"] == "informed well"]
    assert line["ref"]["name"] == name and line["severity"] == "info" and line["timestamp"]
    [line] = [line for line in lines if line["message"].startswith("Handler 'bad' failed")]
    assert "ValueError: boo" in line["exc_info"] and line["severity"] == "error"


def test_own_formats(stage: Stage, output: Any) -> None:
    declare()
    stream = output(log_format="%(levelname)s|%(message)s", log_prefix=False)
    run(stage)
    assert "INFO|informed well\n" in stream.getvalue()


def test_configurations_of_applications(stage: Stage, clean_logging: None) -> None:
    declare()
    stream = io.StringIO()
    logging.config.dictConfig({
        "version": 1, "disable_existing_loggers": False,
        "formatters": {"f": {"format": "<%(name)s %(message)s>"}},
        "handlers": {"h": {"class": "logging.StreamHandler", "stream": stream, "formatter": "f"}},
        "loggers": {"kopf.objects": {"handlers": ["h"], "level": "INFO", "propagate": False}},
    })
    logger = logging.getLogger("kopf.objects")
    try:
        run(stage)
    finally:
        logger.handlers[:] = [h for h in logger.handlers if getattr(h, "stream", None) is not stream]
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    assert "<kopf.objects informed well>" in stream.getvalue()
    assert "<kopf.objects Handler 'fn' succeeded.>" in stream.getvalue()
    assert "debugged" not in stream.getvalue()


def test_filters_on_loggers_see_all_records(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    seen = []

    def keep(record: logging.LogRecord) -> bool:
        seen.append(record.getMessage())
        return "warned" not in record.getMessage()

    declare()
    logger = logging.getLogger("kopf.objects")
    logger.addFilter(keep)
    try:
        run(stage)
    finally:
        logger.removeFilter(keep)
    assert "warned" in seen and "Handler 'fn' succeeded." in seen
    assert "warned" not in records.text


def test_disabled_levels_create_no_records(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    factory = logging.getLogRecordFactory()

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = factory(*args, **kwargs)
        made.append((record.name, record.levelno))
        return record

    declare()
    caplog.set_level(logging.WARNING)
    logging.setLogRecordFactory(make)
    try:
        run(stage)
    finally:
        logging.setLogRecordFactory(factory)
    assert not [level for name, level in made if name.startswith("kopf") and level < logging.WARNING]


def test_failing_logging_handlers_do_not_affect_operators(
    stage: Stage, records: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError("broken handler")

    # Exceptions of such handlers cannot be raised, and are reported by the hook.
    reported = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: reported.append(str(args.exc_value)))
    kopf.on.create("kopfexamples", id="fn")(lambda **_: "done")
    broken = Broken()
    logger = logging.getLogger("kopf.objects")
    logger.addHandler(broken)
    try:
        with stage.operator():
            assert stage.handled(stage.create())["status"] == {"fn": "done"}
    finally:
        logger.removeHandler(broken)
    assert "broken handler" in reported


def messages(stage: Stage, name: str) -> set[tuple[str, str, str]]:
    return {(e["type"], e["reason"], e["message"]) for e in stage.events(name)}


def test_events_of_handlers(stage: Stage) -> None:
    @kopf.on.create("kopfexamples", id="fn")
    def fn(body: Any, **_: Any) -> None:
        kopf.info(body, reason="Info", message="informed")
        kopf.warn(body, reason="Warn", message="warned")
        kopf.event(body, type="Custom", reason="Any", message="m")
        try:
            raise ValueError("boo")
        except ValueError:
            kopf.exception(body, reason="Exc", message="failed")

    @kopf.on.create("kopfexamples", id="afn")
    async def afn(body: Any, **_: Any) -> None:
        kopf.info(body, reason="Async", message="x" * 2000)

    with stage.operator(posting=True):
        name = stage.create()
        stage.handled(name)
        until(lambda: len([m for m in messages(stage, name) if m[1] != "Logging"]) >= 5, "the events")
    found = messages(stage, name)
    assert {("Normal", "Info", "informed"), ("Warning", "Warn", "warned"), ("Custom", "Any", "m")} <= found
    assert any(type == "Error" and reason == "Exc" and "boo" in text for type, reason, text in found)
    assert any(reason == "Async" and len(text) <= 1024 for _, reason, text in found)


def test_records_are_events(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    @kopf.on.create("kopfexamples", id="fn")
    def fn(logger: Any, **_: Any) -> None:
        logger.info("posted")
        logger.debug("not posted")
        logger.error("an error")
        logger.critical("a critical one")

    @kopf.on.event("kopfexamples")
    def event(logger: Any, **_: Any) -> None:
        logger.warning("of an event handler")

    with stage.operator(posting=True):
        name = stage.create()
        stage.handled(name)
        until(lambda: ("Error", "Logging", "an error") in messages(stage, name), "the events")
        until(lambda: ("Normal", "Logging", "Handler 'fn' succeeded.") in messages(stage, name), "own")
    found = messages(stage, name)
    assert ("Normal", "Logging", "posted") in found
    assert ("Fatal", "Logging", "a critical one") in found
    texts = {text for _, _, text in found}
    assert "not posted" not in texts and "of an event handler" not in texts


def test_events_can_be_disabled(stage: Stage) -> None:
    @kopf.on.startup()
    def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = True
        settings.posting.loggers = False

    @kopf.on.create("kopfexamples", id="fn")
    def fn(body: Any, logger: Any, **_: Any) -> None:
        logger.info("only logged")
        kopf.info(body, reason="R", message="posted")

    with stage.operator():
        name = stage.create()
        stage.handled(name)
        until(lambda: ("Normal", "R", "posted") in messages(stage, name), "the event")
    assert messages(stage, name) == {("Normal", "R", "posted")}


def test_records_after_the_end_of_operators(stage: Stage) -> None:
    kept: list[Any] = []

    @kopf.on.create("kopfexamples", id="fn")
    def fn(logger: Any, body: Any, spec: Any, patch: Any, **_: Any) -> None:
        kept.extend([logger, body, spec, patch])

    name = run(stage)
    logger, body, spec, patch = kept
    logger.info("afterwards")
    assert body["metadata"]["name"] == name and dict(spec) == {"field": "value"}
    with pytest.raises(LookupError):
        kopf.info(body, reason="R", message="nowhere")


def test_readiness_is_logged_with_the_watched_resources(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    @kopf.on.create("kopfexamples")
    def create(**_: Any) -> None:
        pass

    expected = "The operator is ready. Watched resources: kopfexamples.v1.kopf.dev; namespaces: all."
    with stage.operator():
        found = until(lambda: [one for one in records.records if one.getMessage() == expected])
    assert len(found) == 1 and found[0].levelname == "INFO"
