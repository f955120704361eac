"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._cogs.aiokits does not exist here: the tasks of the operator run by the native engine. "
    "Use asyncio for own tasks."
)
