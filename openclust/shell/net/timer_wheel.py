"""One wheel of timers for all connections, in place of a task or an asyncio timer for each of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class TimerWheel(Generic[T]):
    """Items that become due once. The wheel has no clock: call `advance` about every `tick_ms`.

    An item is never due early and at most two ticks late, if `advance` is called in time. A wait may be longer than a
    revolution (`slots * tick_ms`): the item is then looked at once each revolution.
    """

    __slots__ = ("_due", "_now_tick", "_slots", "_tick", "_tick_ms")

    def __init__(self, slots: int, tick_ms: int, now_ms: int) -> None:
        assert slots > 0 and tick_ms > 0
        self._tick_ms = tick_ms
        # The last tick whose slot is empty, and that of the clock: apart only while `advance` reaches its limit.
        self._tick = self._now_tick = now_ms // tick_ms
        # A dict as an ordered set: due items come in the order in which they were added.
        self._slots: list[dict[T, None] | None] = [None] * slots
        self._due: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, item: T) -> bool:
        return item in self._due

    def add(self, item: T, after_ms: int) -> None:
        """Make `item` due `after_ms` from now. An item that is waiting already is moved."""
        self.remove(item)
        # The last `advance` may be almost a tick ago, so one tick is added: never early.
        due = self._now_tick + 1 + max(0, -(-after_ms // self._tick_ms))
        self._due[item] = due
        at = due % len(self._slots)
        slot = self._slots[at]
        if slot is None:
            self._slots[at] = {item: None}
        else:
            slot[item] = None

    def remove(self, item: T) -> None:
        """Forget `item`, if it is waiting."""
        due = self._due.pop(item, None)
        if due is None:
            return
        at = due % len(self._slots)
        slot = self._slots[at]
        assert slot is not None
        del slot[item]
        if not slot:
            self._slots[at] = None

    def advance(self, now_ms: int, limit: int = 1_000) -> list[T]:
        """Take out and return the items that are due by `now_ms`, at most `limit`: the others come with the next call.

        A clock that jumps ahead costs one revolution at most. After a jump back nothing is due until it catches up.
        """
        target = self._now_tick = max(self._now_tick, now_ms // self._tick_ms)
        # After a jump, each due item is in a slot of the last revolution.
        self._tick = max(self._tick, target - len(self._slots))
        taken: list[T] = []
        while self._tick < target:
            slot = self._slots[(self._tick + 1) % len(self._slots)]
            if slot:
                for item in [item for item in slot if self._due[item] <= target]:
                    if len(taken) == limit:
                        return taken
                    self.remove(item)
                    taken.append(item)
            self._tick += 1
        return taken
