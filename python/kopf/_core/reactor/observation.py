"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.reactor.observation does not exist here: resources and namespaces are observed by the native engine. "
    "Use the options namespaces and clusterwide."
)
