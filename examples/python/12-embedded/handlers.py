"""An operator inside of an application, in a thread with its own event loop.

In an asynchronous application, `await kopf.operator(...)` in a task is enough. Several operators
can run in one process, each with its own registry.
"""

import asyncio
import queue
import threading

import kopf


def serve(count: int) -> list[str]:
    """Runs an operator until `count` objects are created, and returns their names."""
    registry = kopf.OperatorRegistry()
    names: queue.Queue[str] = queue.Queue()
    ready, stop = threading.Event(), threading.Event()

    @kopf.on.login(registry=registry)
    def login(**kwargs):
        return kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.create("kopfexamples", registry=registry)
    def create_fn(name, memo, **_):
        memo.names.put(name)

    def target():
        memo = kopf.Memo(names=names)
        asyncio.run(
            kopf.operator(
                registry=registry, clusterwide=True, ready_flag=ready, stop_flag=stop, memo=memo
            )
        )

    thread = threading.Thread(target=target)
    thread.start()
    ready.wait()
    try:
        return [names.get(timeout=60) for _ in range(count)]
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    kopf.configure(verbose=True)
    serve(3)
