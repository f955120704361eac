"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._cogs.structs.finalizers does not exist here: finalizers are added and removed by the native engine. "
    "Use settings.persistence.finalizer, and the option optional of @kopf.on.delete."
)
