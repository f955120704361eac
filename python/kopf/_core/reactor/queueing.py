"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.reactor.queueing does not exist here: events of objects are queued by the native engine. "
    "Use settings.queueing."
)
