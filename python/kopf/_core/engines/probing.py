"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.engines.probing does not exist here: the health endpoint is served by the native engine. "
    "Use @kopf.on.probe and the option liveness_endpoint."
)
