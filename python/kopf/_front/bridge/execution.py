"""Sub-handlers: their execution inside of a running handler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from kopf._front.bridge import lowering, variables
from kopf._front.objects import current
from kopf._front.declare.handlers import ChangingHandler
from kopf._front.objects.ids import generate_id

if TYPE_CHECKING:
    from kopf._front.objects.causes import Cause
    from kopf._front.declare.registries import ChangingRegistry

__all__ = ["execute"]


async def execute(
    *,
    fns: Iterable[Any] | None = None,
    handlers: Iterable[ChangingHandler] | None = None,
    registry: ChangingRegistry | None = None,
    lifecycle: Any | None = None,
    cause: Cause | None = None,
) -> None:
    """Runs the sub-handlers of the current handler now, instead of after its return.

    If some of them are unfinished, it raises an exception that the handler must not suppress: the handler
    is called again later, and finished sub-handlers are not.

    Arguments:

    - ``fns``: functions, as a list, or as a dict of ids and functions; by default, the sub-handlers that
      were declared in the handler so far.
    - ``handlers``, ``registry``: the same as objects of the framework; for compatibility.
    - ``lifecycle``: the order, one of :mod:`kopf.lifecycles`; by default, that of the operator.
    - ``cause``: accepted for compatibility.

    ::

        def make_part(**_): ...

        @kopf.on.create("kopfexamples")
        async def create_fn(spec, logger, **_):
            await kopf.execute(fns={part: make_part for part in spec.get("parts", [])})
            logger.info("all parts are made")
    """
    if sum(source is not None for source in (fns, handlers, registry)) > 1:
        raise TypeError("Only one of the fns, handlers, registry can be passed. Got more: call execute() once "
                        "for each.")
    call = current.call()
    if call.subregistry is None:
        raise RuntimeError(
            "Sub-handlers are only supported in handlers of changes: others have no persistence. "
            "Call the functions directly."
        )
    if fns is not None:
        chosen = _from_functions(call, fns)
    elif handlers is not None:
        chosen = list(handlers)
    elif registry is not None:
        chosen = list(registry.get_all_handlers())
    else:
        chosen = list(call.subregistry.get_all_handlers())
    await run(call, chosen, lifecycle)


async def run(
    call: current.CurrentCall, handlers: Iterable[ChangingHandler], lifecycle: Any | None = None,
) -> None:
    """Runs sub-handlers in the engine. Raises `HandlerChildrenRetry` while some are unfinished."""
    handlers = list(handlers)
    specs = [lowering.lower(handler, parent=call.handler) for handler in handlers]
    if not specs:
        return
    bridge = call.bridge
    if bridge.has_own_lifecycle or callable(lifecycle):
        for handler in handlers:
            bridge.handlers[handler.id] = handler
    # Sub-handlers receive the current patch of the parent, and its context variables.
    bridge.send_patch(call)
    variables.keep(call)
    from kopf._kopf import execute as run_natively

    future = bridge.new_future()
    run_natively(call.native, specs, lowering.lower_lifecycle(lifecycle), future)
    await future


def _from_functions(call: current.CurrentCall, fns: Iterable[Any]) -> list[ChangingHandler]:
    if isinstance(fns, Mapping):
        pairs: list[tuple[str | None, Any]] = list(fns.items())
    elif isinstance(fns, Iterable):
        pairs = [(None, fn) for fn in fns]
    else:
        raise ValueError(f"Subhandlers must be a list or a dict of functions, not {fns!r}.")
    parent = cast(ChangingHandler, call.handler)
    return [
        ChangingHandler(
            fn=fn,
            id=generate_id(fn=fn, id=id, prefix=parent.id),
            param=None,
            errors=None, timeout=None, retries=None, backoff=None,
            selector=None, labels=None, annotations=None, when=None,
            initial=None, deleted=None, requires_finalizer=None,
            reason=None, field=None, value=None, old=None, new=None, field_needs_change=None,
        )
        for id, fn in pairs
    ]
