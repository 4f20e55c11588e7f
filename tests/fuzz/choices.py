"""Where a fuzz run's decisions come from: a seed, a fuzzer's bytes, or hypothesis."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DataObject

T = TypeVar("T")


class Choices:
    """Decisions, all made of `below`."""

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        raise NotImplementedError

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases; a spent source of bytes always says False."""
        return self.below(100) >= 100 - percent

    def octets(self, count: int) -> bytes:
        return bytes(self.below(256) for _ in range(count))


class SeedChoices(Choices):
    """The same decisions for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


class ByteChoices(Choices):
    """Decisions read from bytes, as coverage-guided fuzzers make them; when these are spent, all are 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def below(self, limit: int) -> int:
        size = (max(limit - 1, 1).bit_length() + 7) // 8
        piece = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(piece, "big") % limit


class DrawnChoices(Choices):
    """Decisions that hypothesis makes, and makes smaller when they led to a failure."""

    def __init__(self, data: DataObject) -> None:
        self._draw = data.draw

    def below(self, limit: int) -> int:
        return self._draw(st.integers(0, limit - 1))
