"""What we also give to users: virtual time, real servers on loopback, and their faults."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily
from holdfast.testing.instant import VirtualTime, instant, virtual_world

if TYPE_CHECKING:
    from holdfast.testing.faulty import Faults, Faulty
    from holdfast.testing.postgres import PostgresServer
    from holdfast.testing.proxy import FaultProxy
    from holdfast.testing.upstream import BadUpstream

# Servers need more than the standard library: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    {
        "BadUpstream": "holdfast.testing.upstream",
        "FaultProxy": "holdfast.testing.proxy",
        "Faults": "holdfast.testing.faulty",
        "Faulty": "holdfast.testing.faulty",
        "PostgresServer": "holdfast.testing.postgres",
    },
)

__all__ = ["BadUpstream", "FaultProxy", "Faults", "Faulty", "PostgresServer", "VirtualTime", "instant", "virtual_world"]
