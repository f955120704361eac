"""Typed specs: a model instead of a mapping, its validation, and its CRD.

`kopf crd examples/python/18-typed/operator.py` prints the definition of the resource.
"""

import dataclasses
from typing import Literal

import kopf


@dataclasses.dataclass
class Port:
    number: int
    protocol: Literal["TCP", "UDP"] = "TCP"


@kopf.crd("kopf.dev", "v1", "gateways", short_names=["gw"])
@dataclasses.dataclass
class GatewaySpec:
    host: str
    ports: list[Port] = dataclasses.field(default_factory=list)


@kopf.on.create("gateways")
def open_ports(spec: GatewaySpec, logger, **_):
    """Gets an instance of the model; fails permanently, without a call, if the spec is invalid."""
    for port in spec.ports:
        logger.info(f"Opening {spec.host}:{port.number}/{port.protocol}")
    return {"opened": len(spec.ports)}
