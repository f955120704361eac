"""Typed specs: a model in place of a mapping, with validation and a CRD.

`kopf crd examples/python/18-typed/handlers.py` prints the CRD.
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


@kopf.on.create(GatewaySpec)
def open_ports(spec: GatewaySpec, logger, **_):
    """Gets an instance of the model. An invalid spec fails permanently, without a call."""
    for port in spec.ports:
        logger.info(f"Opening {spec.host}:{port.number}/{port.protocol}")
    return {"opened": len(spec.ports)}
