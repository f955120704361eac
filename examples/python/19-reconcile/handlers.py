import kopf


@kopf.on.reconcile("kopfexamples", owns=["configmaps"], every=300, finalizer=True)
async def sync(name, spec, triggers, patch, logger, **_):
    logger.info(f"Reconciling {name}: {', '.join(sorted(triggers))}.")
    if kopf.Trigger.DELETED in triggers:
        # Kubernetes deletes the ConfigMap; things outside of the cluster are deleted here.
        logger.info(f"Goodbye, {name}.")
        return None

    field = spec.get("field")
    if not field:
        # An incomplete object is looked at again, even if nothing changes.
        return kopf.Requeue(after=30)

    # Writes nothing if nothing changes.
    await kopf.apply_child({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"field": field},
    })
    patch.status["synced"] = field
    return None
