"""Absent: API requests are made by the native engine."""

raise ImportError(
    "kopf._cogs.clients does not exist here: API requests are made by the native engine. "
    "Use a client library for own requests (the default login configures `kubernetes`), "
    "kopf.event() for k8s-events, and kopf.ConnectionInfo for credentials and proxies."
)
