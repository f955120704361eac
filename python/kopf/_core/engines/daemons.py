"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.engines.daemons does not exist here: daemons and timers are run by the native engine. "
    "Use @kopf.daemon and @kopf.timer."
)
