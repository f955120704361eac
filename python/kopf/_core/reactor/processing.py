"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.reactor.processing does not exist here: events of objects are processed by the native engine. "
    "Use kopf.testing to run handlers in tests."
)
