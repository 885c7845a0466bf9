"""Identifiers: UUIDv7 (RFC 9562), so that ids made later sort later.

Bits: 48 of milliseconds, 12 of the fraction of that millisecond, 62 of chance. Within one process ids always
ascend, also when the clock stands still or goes back.
"""

from __future__ import annotations

import threading

from holdfast.base.world import world

_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62
_CHANCE_MASK = (1 << 62) - 1

_lock = threading.Lock()
_last_tick = 0


def new_id() -> str:
    """A new UUIDv7 in its canonical text form."""
    here = world()
    digits = f"{_bits(_next_tick(here.wall_us()), int.from_bytes(here.token_bytes(8))):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def prefixed_id(prefix: str, *, chance_bytes: int = 8) -> str:
    """A random id such as `evt_a1b2c3d4e5f6789a`."""
    return f"{prefix}_{world().token_bytes(chance_bytes).hex()}"


def id_time_us(identifier: str) -> int:
    """When a UUIDv7 was made, in UTC microseconds.

    Raises:
        ValueError: the text is no UUIDv7.
    """
    digits = identifier.replace("-", "")
    if len(digits) != 32 or digits[12] != "7":
        raise ValueError(f"{identifier!r} is not a UUIDv7")
    return int(digits[:12], 16) * 1_000 + (int(digits[13:16], 16) * 1_000 >> 12)


def _next_tick(wall_us: int) -> int:
    """Milliseconds and their fraction as one 60-bit number that never repeats in this process."""
    global _last_tick
    milliseconds, microseconds = divmod(wall_us, 1_000)
    # Rounding up keeps `id_time_us` exact: 4096 steps cover 1000 microseconds.
    tick = milliseconds << 12 | -(-microseconds * 4_096 // 1_000)
    with _lock:
        _last_tick = tick if tick > _last_tick or _far_behind(tick) else _last_tick + 1
        return _last_tick


def _far_behind(tick: int) -> bool:
    """True when the clock was replaced rather than nudged: another world may live years earlier."""
    return _last_tick - tick > 60_000 << 12


def _bits(tick: int, chance: int) -> int:
    return (tick >> 12) << 80 | _VERSION | (tick & 0xFFF) << 64 | _VARIANT | chance & _CHANCE_MASK
