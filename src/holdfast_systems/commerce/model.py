"""The words of commerce that all services share: the names of the parts, ids and states."""

from __future__ import annotations

from enum import StrEnum

from holdfast.base import new_id

PROVISIONER = "provisioner"
CONTROL_PLANE = "control-plane"
GATEWAY = "gateway"
RUNNER = "runner"
CONNECTORS = "connectors"

INSTANCE, WALLET, ENTRY, RESERVATION, RUN, INGESTION = "inst", "wal", "led", "res", "run", "ing"
UPLOAD = "upl"
"""The prefixes of ids."""

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})


class InstanceStatus(StrEnum):
    """Whether an instance may run."""

    ACTIVE = "active"
    PAUSED = "paused"


class BindingStatus(StrEnum):
    """Whether a tool may be used with this binding."""

    ACTIVE = "active"
    DISABLED = "disabled"


class PlanKind(StrEnum):
    """What a line of an order buys."""

    AGENT = "agent"
    TOPUP = "topup"


class ReservationState(StrEnum):
    """What became of the credits that a run holds."""

    HELD = "held"
    SETTLED = "settled"
    RELEASED = "released"
    EXPIRED = "expired"


class IngestionStatus(StrEnum):
    """How far the knowledge base is with an upload."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    RETRY_PENDING = "RETRY_PENDING"
    """Something that it needs is away; it is tried again by itself."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class EntryKind(StrEnum):
    """What moved credits in a wallet."""

    PURCHASE = "purchase"
    TOPUP = "topup"
    CHARGE = "charge"


def make_id(prefix: str) -> str:
    """A new id such as `inst_01890a5d…`; ids made later sort later."""
    return f"{prefix}_{new_id().replace('-', '')}"
