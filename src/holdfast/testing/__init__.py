"""What we also give to users: virtual time, real servers on loopback, and their faults."""

from holdfast.testing.instant import VirtualTime, instant, virtual_world

__all__ = ["VirtualTime", "instant", "virtual_world"]
