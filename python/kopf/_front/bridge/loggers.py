"""Loggers of handled objects: adapters, formatters, and the setup of logging.

Records of an object have three extra attributes: `k8s_ref`, the reference to the object;
`k8s_skip`, `True` if the record must not become a Kubernetes event; `settings` of the operator.
"""

from __future__ import annotations

import copy
import enum
import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._front.objects.bodies import Body
    from kopf._front.state.configuration import OperatorSettings

    from kopf._front.bridge.jsonlogs import ObjectJsonFormatter, ObjectPrefixingJsonFormatter

__all__ = [
    "DEFAULT_JSON_REFKEY",
    "LocalObjectLogger",
    "LogFormat",
    "Logger",
    "ObjectFormatter",
    "ObjectJsonFormatter",
    "ObjectLogger",
    "ObjectPrefixingJsonFormatter",
    "ObjectPrefixingMixin",
    "ObjectPrefixingTextFormatter",
    "ObjectTextFormatter",
    "TerseObjectLogger",
    "activity_logger",
    "configure",
    "logger",
    "make_formatter",
]

Logger = logging.Logger | logging.LoggerAdapter[Any]

#: The key of the object's reference in JSON logs.
DEFAULT_JSON_REFKEY = "object"

#: The logger of all records about handled objects.
logger = logging.getLogger("kopf.objects")


class LogFormat(enum.Enum):
    """The log formats of ``kopf run --log-format`` and :func:`kopf.configure`: for people or for machines.

    ::

        kopf.configure(log_format=kopf.LogFormat.JSON)
    """

    PLAIN = "%(message)s"
    """Only the message."""
    FULL = "[%(asctime)s] %(name)-20.20s [%(levelname)-8.8s] %(message)s"
    """The time, the logger, the level and the message; the default."""
    JSON = "-json-"
    """A JSON object per line, with a reference to the object."""


class ObjectFormatter(logging.Formatter):
    """The base class of Kopf's formatters, which distinguishes them from those of applications."""


# Control characters except tabs, line and paragraph separators, bidirectional controls.
_ESCAPES = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (
        *range(0x09), *range(0x0a, 0x20), *range(0x7f, 0xa0), 0x61c, 0x200e, 0x200f,
        *range(0x2028, 0x202f), *range(0x2066, 0x206a),
    )
}
_IN_LINES = {**_ESCAPES, ord("\n"): "\\n"}
_IN_BLOCKS = {**_ESCAPES, ord("\n"): "\n    "}


class ObjectTextFormatter(ObjectFormatter):
    """A text formatter without the prefix of the object.

    A record is one line: line breaks and control characters in its message are escaped, and the
    lines of tracebacks are indented, so that content of objects cannot look like other records.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Formats a copy of the record; the record itself is not changed."""
        message = record.getMessage()
        record = copy.copy(record)
        record.msg = message if message.isprintable() else message.translate(_IN_LINES)
        record.args = ()
        if record.exc_info:
            # Other formatters may have stored their own text.
            record.exc_text = None
        elif record.exc_text:
            record.exc_text = _indented(record.exc_text)
        return super().format(record)

    def formatException(self, ei: Any) -> str:
        """Formats and indents a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        """Indents a stack."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "    " + text.translate(_IN_BLOCKS)


class ObjectPrefixingMixin(ObjectFormatter):
    """A formatter that prepends `[namespace/name]` to messages about objects."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats a copy of the record with the prefix; the record itself is not changed."""
        ref: Mapping[str, Any] | None = getattr(record, "k8s_ref", None)
        if ref is not None:
            namespace = ref.get("namespace", "")
            name = ref.get("name", "")
            prefix = f"[{namespace}/{name}]" if namespace else f"[{name}]"
            message = record.getMessage()
            record = copy.copy(record)
            record.msg = f"{prefix} {message}"
            record.args = ()
        return super().format(record)


class ObjectPrefixingTextFormatter(ObjectPrefixingMixin, ObjectTextFormatter):
    """A text formatter with the prefix of the object."""


def __getattr__(name: str) -> Any:
    # The JSON formatters derive from classes of python-json-logger, which is loaded on demand.
    if name in ("ObjectJsonFormatter", "ObjectPrefixingJsonFormatter"):
        from kopf._front.bridge import jsonlogs

        return getattr(jsonlogs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
    _StreamHandler = logging.StreamHandler[Any]
else:
    # Generic only for type checkers.
    _Adapter = logging.LoggerAdapter
    _StreamHandler = logging.StreamHandler


class ObjectLogger(_Adapter):
    """The type of the argument ``logger`` in handlers of objects: a logger adapter of :mod:`logging`.

    Records have the name of the object, and those of INFO and above become Kubernetes events according to
    ``settings.posting``. Extras of individual calls take precedence over the extras of the object.

    Arguments:

    - ``body``: the object.
    - ``settings``: the settings of the operator.

    ::

        logger = kopf.ObjectLogger(
            body=kopf.Body({"metadata": {"name": "web"}}), settings=kopf.OperatorSettings(),
        )
        logger.info("hello", extra={"shift": "night"})
    """

    def __init__(self, *, body: Body, settings: OperatorSettings) -> None:
        metadata: Mapping[str, Any] = body.get("metadata") or {}
        super().__init__(
            logger,
            {
                "settings": settings,
                "k8s_skip": False,
                "k8s_ref": {
                    "apiVersion": body.get("apiVersion"),
                    "kind": body.get("kind"),
                    "name": metadata.get("name"),
                    "uid": metadata.get("uid"),
                    "namespace": metadata.get("namespace"),
                },
            },
        )

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Adds the extras of the object to those of the call."""
        extra = kwargs.get("extra")
        kwargs["extra"] = {**self.extra, **extra} if extra else self.extra  # type: ignore[dict-item]
        return msg, kwargs


class LocalObjectLogger(ObjectLogger):
    """A logger of one object whose records never become Kubernetes events.

    Arguments:

    - ``body``: the object.
    - ``settings``: the settings of the operator.

    ::

        @kopf.on.create("kopfexamples")
        def create_fn(body, logger, **_):
            local = kopf.LocalObjectLogger(body=body, settings=kopf.OperatorSettings())
            local.info("only in the log")
            logger.info("in the log, and an event")
    """

    def log(self, *args: Any, **kwargs: Any) -> None:
        """Logs a message with a level."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        super().log(*args, **kwargs)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Adds the extras of the object, and marks the record as local."""
        kwargs["extra"] = {**self.extra, **(kwargs.get("extra") or {}), "k8s_skip": True}  # type: ignore[dict-item]
        return msg, kwargs


class TerseObjectLogger(LocalObjectLogger):
    """A logger that lowers levels below warnings by one.

    Index functions run for every event of every object, so their info messages are shown
    only in the debug mode.
    """

    def isEnabledFor(self, level: int) -> bool:
        """Returns `True` if the level is enabled; those below warnings count as one level lower."""
        return super().isEnabledFor(level if level >= logging.WARNING else level - 10)


def activity_logger(activity: str) -> logging.Logger:
    """Returns the logger of an activity: `startup`, `cleanup`, `authentication`, `probe`."""
    return logging.getLogger(f"kopf.activities.{activity}")


class _KopfStreamHandler(_StreamHandler):
    """The handler of `configure()`, recognised and replaced by the next call."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the record; drops it if the stream is closed, as after test runners."""
        if not getattr(self.stream, "closed", False):
            super().emit(record)


def configure(
    debug: bool | None = None,
    verbose: bool | None = None,
    quiet: bool | None = None,
    log_format: LogFormat = LogFormat.FULL,
    log_prefix: bool | None = False,
    log_refkey: str | None = None,
) -> None:
    """Sets up logging to stderr as ``kopf run`` does; for embedded operators. Handlers of the application
    are kept.

    Arguments:

    - ``debug``: ``True`` shows all records, also those of asyncio.
    - ``verbose``: ``True`` shows debug records.
    - ``quiet``: ``True`` shows only warnings and errors.
    - ``log_format``: a :class:`kopf.LogFormat`; ``FULL`` by default.
    - ``log_prefix``: ``True`` puts ``[namespace/name]`` before messages about objects; ``False`` by
      default. ``None`` does so for text formats.
    - ``log_refkey``: the key of the object in JSON records; ``object`` by default.

    ::

        kopf.configure(verbose=True, log_prefix=True)
    """
    handler = _KopfStreamHandler()
    handler.setFormatter(make_formatter(log_format, log_prefix, log_refkey))
    root = logging.getLogger()
    root.handlers[:] = [h for h in root.handlers if not isinstance(h, _KopfStreamHandler)]
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug or verbose else logging.WARNING if quiet else logging.INFO)

    # Records of asyncio are only for debugging. Without a handler, they would go to the handler of
    # last resort.
    asyncio_logger = logging.getLogger("asyncio")
    asyncio_logger.propagate = bool(debug)
    if not debug:
        asyncio_logger.handlers[:] = [logging.NullHandler()]


def make_formatter(
    log_format: LogFormat | str = LogFormat.FULL,
    log_prefix: bool | None = False,
    log_refkey: str | None = None,
) -> ObjectFormatter:
    """Returns the formatter of a `LogFormat`, or of a format string of `logging`."""
    prefixing = log_prefix if log_prefix is not None else log_format is not LogFormat.JSON
    if log_format is LogFormat.JSON:
        from kopf._front.bridge import jsonlogs

        if prefixing:
            return jsonlogs.ObjectPrefixingJsonFormatter(refkey=log_refkey)
        return jsonlogs.ObjectJsonFormatter(refkey=log_refkey)
    if isinstance(log_format, LogFormat):
        log_format = log_format.value
    if not isinstance(log_format, str):
        raise ValueError(f"Unsupported log format: {log_format!r}; use kopf.LogFormat or a format string")
    return (
        ObjectPrefixingTextFormatter(log_format) if prefixing else ObjectTextFormatter(log_format)
    )


class ObjectPoster(logging.Handler):
    """A logging handler that posts records of objects as Kubernetes events.

    It is attached to `kopf.objects`. Records that the engine has posted itself have `k8s_skip`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns `True` if the record belongs to an object and the settings enable its posting."""
        settings: OperatorSettings | None = getattr(record, "settings", None)
        return (
            settings is not None
            and bool(getattr(record, "k8s_ref", None))
            and not getattr(record, "k8s_skip", False)
            and settings.posting.enabled
            and settings.posting.loggers
            and record.levelno >= settings.posting.level
            and bool(super().filter(record))
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Queues the event; does nothing outside of an operator."""
        from kopf._front.objects import current

        try:
            ref = {key: value for key, value in record.k8s_ref.items() if value}  # type: ignore[attr-defined]
            current.post_record(ref, record.levelno, self.format(record))
        except Exception:
            self.handleError(record)


def attach_poster() -> None:
    """Attaches the handler to the logger of objects, unless it is attached.

    `logging.config` detaches it if the logger is configured.
    """
    if not any(isinstance(handler, ObjectPoster) for handler in logger.handlers):
        logger.addHandler(ObjectPoster())


attach_poster()
