"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.reactor.orchestration does not exist here: the watch streams are started and stopped by the native engine. "
    "Use the options namespaces and clusterwide."
)
