"""The conversion gateway: a PDF goes in over HTTP and XML comes out, in a process of its own."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily
from holdfast_systems.conversion.gateway.faults import GATEWAY_FAULTS
from holdfast_systems.conversion.gateway.limits import GatewayLimits

if TYPE_CHECKING:
    from holdfast_systems.conversion.gateway.door import faults_door
    from holdfast_systems.conversion.gateway.supervise import Gateway, GatewayNotStarted, start_gateway

# The processes that convert need none of these.
__getattr__ = lazily(
    __name__,
    globals(),
    dict.fromkeys(("Gateway", "GatewayNotStarted", "start_gateway"), "holdfast_systems.conversion.gateway.supervise")
    | {"faults_door": "holdfast_systems.conversion.gateway.door"},
)

__all__ = ["GATEWAY_FAULTS", "Gateway", "GatewayLimits", "GatewayNotStarted", "faults_door", "start_gateway"]
