"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.actions.application does not exist here: the changes are applied to objects by the native engine. "
    "Change objects by the kwarg patch."
)
