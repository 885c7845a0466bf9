"""Chance that is the same in every run."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Numbers that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def randbytes(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            self._drawn += 1
            found += blake2b(f"{self._seed}:{self._drawn}".encode()).digest()
        return found[:count]

    def random(self) -> float:
        return int.from_bytes(self.randbytes(6)) / (1 << 48)

    def randrange(self, below: int) -> int:
        return int.from_bytes(self.randbytes(6)) % below

    def choice(self, among: Sequence[T]) -> T:
        return among[self.randrange(len(among))]

    def shuffled(self, given: Sequence[T]) -> list[T]:
        return [one for _, one in sorted(((self.randbytes(8), one) for one in given), key=lambda pair: pair[0])]
