"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._cogs.helpers.aiohttpcaps does not exist here: API requests are made by the native engine. "
    "Use a client library for own requests."
)
