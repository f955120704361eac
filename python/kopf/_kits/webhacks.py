"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._kits.webhacks does not exist here: webhooks are served by the native engine. "
    "Use kopf.WebhookServer."
)
