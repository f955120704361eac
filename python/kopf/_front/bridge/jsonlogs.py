"""Formatters of JSON logs, loaded only when they are used."""

from __future__ import annotations

import logging
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from kopf._front.bridge.loggers import DEFAULT_JSON_REFKEY, ObjectFormatter, ObjectPrefixingMixin

__all__ = ["ObjectJsonFormatter", "ObjectPrefixingJsonFormatter"]

#: Extras of records that are internal to the framework.
_INTERNAL = ("k8s_ref", "k8s_skip", "settings")

_SEVERITIES = (
    (logging.DEBUG, "debug"),
    (logging.INFO, "info"),
    (logging.WARNING, "warn"),
    (logging.ERROR, "error"),
)


class ObjectJsonFormatter(ObjectFormatter, JsonFormatter):
    """A formatter of one JSON object per record.

    Keys: `message`, `timestamp`, `severity`, the reference to the object under `refkey`,
    `exc_info`, and the extras of the call.
    """

    def __init__(self, *args: Any, refkey: str | None = None, **kwargs: Any) -> None:
        reserved = kwargs.pop("reserved_attrs", RESERVED_ATTRS)
        kwargs["reserved_attrs"] = {*reserved, *_INTERNAL}
        kwargs.setdefault("timestamp", True)
        super().__init__(*args, **kwargs)
        self._refkey = refkey or DEFAULT_JSON_REFKEY

    def add_fields(
        self,
        log_data: dict[str, Any],
        record: logging.LogRecord,
        message_dict: dict[str, Any],
    ) -> None:
        """Adds the reference to the object and the severity."""
        super().add_fields(log_data, record, message_dict)
        ref = getattr(record, "k8s_ref", None)
        if ref is not None:
            log_data[self._refkey] = ref
        log_data.setdefault("severity", _severity(record.levelno))


class ObjectPrefixingJsonFormatter(ObjectPrefixingMixin, ObjectJsonFormatter):
    """A formatter of JSON objects with the prefix of the object in the message."""


def _severity(level: int) -> str:
    return next((name for limit, name in _SEVERITIES if level <= limit), "fatal")
