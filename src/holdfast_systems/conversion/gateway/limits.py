"""Every limit of the gateway, by name; each is also an option of its command line."""

from __future__ import annotations

from dataclasses import dataclass, fields

MEBIBYTE = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """What one conversion, one process and the whole gateway may use."""

    bytes_max: int = 50 * MEBIBYTE
    """The largest PDF."""
    pages_max: int = 2_000
    page_chars_max: int = 500_000
    """A page with more characters is cut there and says `truncated="true"`."""
    xml_bytes_max: int = 128 * MEBIBYTE
    cpu_s: int = 30
    """CPU time of one conversion; it is ended at most one second later."""
    wall_s: int = 45
    """How long one conversion may take, the time in the queue not counted."""
    memory_bytes: int = 1_024 * MEBIBYTE
    """Address space of one conversion, on top of what the process has when it starts."""
    processes: int = 2
    """Number of conversions that run at once, each in a process of its own."""
    queue_max: int = 8
    """Maximum number of conversions that wait beyond those that run; the next one is refused with Retry-After."""
    conversions_max: int = 200
    """Number of conversions after which a process is replaced."""
    idle_bytes_max: int = 256 * MEBIBYTE
    """A process that keeps more than this after a conversion is replaced."""

    def __post_init__(self) -> None:
        for part in fields(self):
            least = 0 if part.name == "queue_max" else 1
            if getattr(self, part.name) < least:
                raise ValueError(f"{part.name} is at least {least}")
