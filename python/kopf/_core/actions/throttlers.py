"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.actions.throttlers does not exist here: failing objects are throttled by the native engine. "
    "Use settings.queueing.error_delays."
)
