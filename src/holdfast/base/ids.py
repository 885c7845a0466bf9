"""Identifiers: UUIDv7 (RFC 9562), so that ids made later sort later.

Bits: 48 of milliseconds, 12 of the fraction of that millisecond, 62 of chance. The ids of one clock always ascend,
also across threads and when that clock stands still or goes back; a replaced clock counts for itself.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable
from struct import Struct

from holdfast.base.world import world

CHANCES_DRAWN = 128
_NUMBERS = Struct(f">{CHANCES_DRAWN}Q")

_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62
_CHANCE_MASK = (1 << 62) - 1
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
"""The digit that says `_VARIANT`, with the chance of this one."""
_SHAPE = re.compile(
    r"([0-9a-f]{8})-?([0-9a-f]{4})-?7([0-9a-f]{3})-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}\Z",
    re.IGNORECASE,
)


def new_id() -> str:
    """A new UUIDv7 in its canonical text form."""
    here = world()
    return _text(here.ticks.following(here.wall_us()), _chance(here.token_bytes))


def new_ids(count: int) -> list[str]:
    """Many at once, in order, for a quarter of the price of each."""
    here = world()
    first = here.ticks.following(here.wall_us(), count)
    chances = here.token_bytes(8 * count).hex()
    made: list[str] = []
    head = ""
    for tick, at in zip(range(first, first + count), range(0, 16 * count, 16), strict=True):
        fraction = tick & 0xFFF
        if not fraction or not head:
            digits = f"{tick >> 12:012x}"
            head = f"{digits[:8]}-{digits[8:]}-7"
        variant = _VARIANTS[chances[at]]
        made.append(f"{head}{fraction:03x}-{variant}{chances[at + 1 : at + 4]}-{chances[at + 4 : at + 16]}")
    return made


def prefixed_id(prefix: str, *, chance_bytes: int = 8) -> str:
    """A random id such as `evt_a1b2c3d4e5f6789a`."""
    return f"{prefix}_{world().token_bytes(chance_bytes).hex()}"


def random_64() -> int:
    """An unpredictable number of 64 bits."""
    return _chance(world().token_bytes)


def id_time_us(identifier: str) -> int:
    """When a UUIDv7 was made, in UTC microseconds.

    Raises:
        ValueError: the text is not a UUIDv7.
    """
    found = _SHAPE.match(identifier)
    if found is None:
        raise ValueError(f"{identifier!r} is not a UUIDv7")
    high, low, fraction = found.groups()
    return int(high + low, 16) * 1_000 + (int(fraction, 16) * 1_000 >> 12)


def id_floor(at_us: int) -> str:
    """The least id that can be made at this moment: ids begin with the time."""
    digits = f"{max(0, min(at_us // 1_000, 2**48 - 1)):012x}"
    return f"{digits[:8]}-{digits[8:]}"


_chances: deque[int] = deque()
"""Numbers drawn ahead: asking the kernel for one at a time is most of what an id costs."""
# A forked child must not draw the numbers of its parent.
os.register_at_fork(after_in_child=_chances.clear)


def _chance(token_bytes: Callable[[int], bytes]) -> int:
    if token_bytes is not os.urandom:
        return int.from_bytes(token_bytes(8))
    try:
        return _chances.pop()
    except IndexError:
        drawn = token_bytes(8 * CHANCES_DRAWN)
        _chances.extend(_NUMBERS.unpack(drawn))
        return _chances.pop()


def _text(tick: int, chance: int) -> str:
    bits = (tick >> 12) << 80 | _VERSION | (tick & 0xFFF) << 64 | _VARIANT | chance & _CHANCE_MASK
    digits = bits.to_bytes(16).hex()  # half the price of formatting a number
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
