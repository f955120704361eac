"""Which of several pending handlers of an object runs next?

A *lifecycle* is a function that gets the pending handlers, and returns those to run now, in their
order. The default is :func:`asap`. Pass another one to ``kopf.run(lifecycle=…)``, ``kopf.execute()``
or :func:`kopf.set_default_lifecycle`::

    @kopf.on.create("kopfexamples")
    async def create_fn(**_):
        await kopf.execute(fns={"a": print, "b": print}, lifecycle=kopf.lifecycles.all_at_once)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kopf._front.declare.handlers import Handler
from kopf._front.objects.ids import HandlerId

logger = logging.getLogger("kopf._core.actions.lifecycles")

Handlers = Sequence[Handler]

State = Mapping[HandlerId, Any]
"""States of handlers by ids, with attributes such as ``retries`` and ``started``."""


class LifeCycleFn(Protocol):
    """A function that returns the handlers to run, in the order of running."""

    def __call__(
        self,
        handlers: Sequence[Handler],
        *,
        state: State,
        **kwargs: Any,
    ) -> Sequence[Handler]: ...


def all_at_once(handlers: Handlers, **_: Any) -> Handlers:
    """Runs all handlers, in the order of their registration."""
    return handlers


def one_by_one(handlers: Handlers, **_: Any) -> Handlers:
    """Runs one handler at a time, in the order of their registration."""
    return handlers[:1]


def randomized(handlers: Handlers, **_: Any) -> Handlers:
    """Runs one random handler at a time."""
    import random

    return [random.choice(handlers)] if handlers else []


def shuffled(handlers: Handlers, **_: Any) -> Handlers:
    """Runs all handlers in a random order."""
    import random

    return random.sample(list(handlers), k=len(handlers))


def asap(handlers: Handlers, *, state: State, **_: Any) -> Handlers:
    """Runs one handler at a time, those with fewer retries first."""
    return sorted(handlers, key=lambda handler: state[handler.id].retries)[:1]


_default_lifecycle: LifeCycleFn = asap


def get_default_lifecycle() -> LifeCycleFn:
    """Returns the lifecycle of operators that have none of their own; see :mod:`kopf.lifecycles`.

    ::

        assert kopf.get_default_lifecycle() is kopf.lifecycles.asap
    """
    return _default_lifecycle


def set_default_lifecycle(lifecycle: LifeCycleFn | None) -> None:
    """Sets the lifecycle of operators that have none of their own; see :mod:`kopf.lifecycles`.

    Arguments:

    - ``lifecycle``: the function; ``None`` restores :func:`kopf.lifecycles.asap`.

    ::

        kopf.set_default_lifecycle(kopf.lifecycles.one_by_one)
        kopf.set_default_lifecycle(None)
    """
    global _default_lifecycle
    logger.warning("The default lifecycle is already set to %s, overriding it to %s.",
                   _default_lifecycle, lifecycle)
    _default_lifecycle = lifecycle if lifecycle is not None else asap
