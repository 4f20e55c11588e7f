"""The memory accounts of a broker: what its messages cost, and when publishers must wait."""

from __future__ import annotations

from openclust.broker.message import Message


class Books:
    """`held_bytes` are messages in queues and unacknowledged, `outbox_bytes` what slow sockets have not yet taken.

    `base_bytes` is what the process needs for itself.

    Publishers are stopped above `high_bytes` and let go below nine tenths of it, so that the alarm does not flutter.
    """

    __slots__ = ("alarm", "base_bytes", "held_bytes", "high_bytes", "outbox_bytes")

    def __init__(self, high_bytes: int) -> None:
        self.high_bytes = high_bytes
        self.base_bytes = 0
        self.held_bytes = 0
        self.outbox_bytes = 0
        self.alarm = False

    def hold(self, message: Message) -> None:
        if not message.holders:
            self.held_bytes += message.cost
        message.holders += 1

    def release(self, message: Message) -> None:
        message.holders -= 1
        if not message.holders:
            self.held_bytes -= message.cost

    @property
    def used_bytes(self) -> int:
        return self.base_bytes + self.held_bytes + self.outbox_bytes

    def is_overdrawn(self) -> bool:
        """Whether even what was begun before the alarm has become too much."""
        return self.alarm and self.used_bytes > self.high_bytes * 5 // 4

    def alarm_changed(self) -> bool:
        """Look at the sums again; whether `alarm` is another than before."""
        now = self.used_bytes > (self.high_bytes * 9 // 10 if self.alarm else self.high_bytes)
        changed = now is not self.alarm
        self.alarm = now
        return changed
