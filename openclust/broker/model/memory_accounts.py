"""The accounts of a broker: what its messages cost, in memory and until they are written; when publishers must wait."""

from __future__ import annotations

from typing import Literal

from openclust.broker.model.message import Message

REASON_CHARACTERS_MAX = 200
UNCOMMITTED_BYTES_MAX = 16_777_216
"""Less than the log's tail keeps: who holds some of what is not committed never needs a snapshot."""


class Books:
    """`held_bytes` are messages in queues and unacknowledged, `outbox_bytes` what slow sockets have not yet taken.

    `base_bytes` is what the process needs for itself. `unwritten_bytes` wait for the disk, which `illness` ails, and
    `uncommitted_bytes` for other primaries.

    Publishers are stopped above `high_bytes` and let go below nine tenths of it, so that the alarm does not flutter; by
    what waits for the disk likewise, and they are let go when half of it is written. `lacks` is what it was about last.
    """

    __slots__ = (
        "alarm",
        "base_bytes",
        "held_bytes",
        "high_bytes",
        "illness",
        "lacks",
        "outbox_bytes",
        "uncommitted_bytes",
        "unwritten_bytes",
        "unwritten_bytes_max",
    )

    def __init__(self, high_bytes: int, unwritten_bytes_max: int) -> None:
        self.high_bytes = high_bytes
        self.base_bytes = 0
        self.held_bytes = 0
        self.outbox_bytes = 0
        self.unwritten_bytes_max = unwritten_bytes_max
        self.unwritten_bytes = 0
        self.uncommitted_bytes = 0
        self.illness = ""
        self.alarm = False
        self.lacks: Literal["memory", "disk", "log"] = "memory"

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
        lacked = self.lacks if self.alarm else ""
        now = True
        if self.used_bytes > (self.high_bytes * 9 // 10 if lacked == "memory" else self.high_bytes):
            self.lacks = "memory"
        elif self.unwritten_bytes > self.unwritten_bytes_max // (2 if lacked == "disk" else 1):
            self.lacks = "disk"
        elif self.uncommitted_bytes > UNCOMMITTED_BYTES_MAX // (2 if lacked == "log" else 1):
            self.lacks = "log"
        else:
            now = False
        changed = now is not self.alarm
        self.alarm = now
        return changed

    @property
    def reason(self) -> str:
        """Why publishers wait, in words for them."""
        if self.lacks == "memory":
            return "low on memory"
        if self.lacks == "log":
            return "the other primaries are slower than what is published"
        return f"disk: {self.illness or 'slower than what is published'}"[:REASON_CHARACTERS_MAX]
