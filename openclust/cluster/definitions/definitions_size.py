"""The size of all definitions: changes are added up, and the definitions measured when the sum is too large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import Change

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker

MEASURE_AGAIN_MS = 1_000
"""Definitions that are too many are measured again so long after the last time, if anything changed; few at once."""
MEASURE_GROWTH = 100
"""Or when they may have grown by one part in so many."""


class DefinitionsSize:
    """Tell it every change that is `added`; call `measure_on` once a turn while it `is_measuring`.

    What is deleted is only ever added to the sum, so that is never too small.
    """

    def __init__(
        self, broker: Broker, state: Callable[[], Iterator[Change]], *, bytes_max: int, slice_max: int
    ) -> None:
        self.bytes_max = bytes_max
        self._broker = broker
        self._state = state
        self._slice_max = slice_max
        self._sum = 0
        self._is_known = False
        # So few, when they were measured last, that it took no longer than a slice.
        self._are_few = False
        self._measured = 0
        self._measured_ms = 0
        self._measuring: Iterator[Change] | None = None
        self._found = 0
        self._before = 0

    def added(self, body: bytes) -> None:
        """A change was made; encoded."""
        self._sum += len(body)

    def known(self, size: int) -> None:
        """The definitions have so many bytes."""
        self._sum = self._measured = size
        self._measured_ms = self._broker.now_ms
        self._is_known = True
        self._measuring = None

    @property
    def is_measuring(self) -> bool:
        return self._measuring is not None

    def know(self) -> None:
        """Measure the definitions, if that was never done: some may be older than the log."""
        if not self._is_known and self._measuring is None:
            self._measure()

    def is_full(self) -> bool:
        """Whether there is no room for another definition; while they are measured there is."""
        if self._sum > self.bytes_max and self._measuring is None and self._may_be_less():
            self._measure()
        return self._sum > self.bytes_max and self._measuring is None

    def _may_be_less(self) -> bool:
        grown = self._sum - self._measured
        if grown * MEASURE_GROWTH >= self.bytes_max or (grown > 0 and self._are_few):
            return True
        return grown > 0 and self._broker.now_ms - self._measured_ms >= MEASURE_AGAIN_MS

    def _measure(self) -> None:
        self._measuring = self._state()
        self._found = 0
        self._before = self._sum
        self._are_few = True
        self.measure_on()

    def measure_on(self) -> None:
        if self._measuring is None:
            return
        sizes = [len(encode_change(each)) for each in islice(self._measuring, self._slice_max)]
        self._found += sum(sizes)
        if len(sizes) < self._slice_max:
            self.known(self._found + self._sum - self._before)
        else:
            self._are_few = False
