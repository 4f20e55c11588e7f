"""The accounts of a broker: what its messages cost, in memory and until they are written; when publishers must wait."""

from __future__ import annotations

from typing import Literal

from openclust.broker.model.message import Message

REASON_CHARACTERS_MAX = 200
UNCOMMITTED_BYTES_MAX = 16_777_216
"""Less than the tail of the log keeps: so a follower that has a part of the uncommitted entries needs no snapshot."""


class MemoryAccounts:
    """`held_bytes` are messages in queues and unacknowledged ones, `outbox_bytes` those that slow sockets hold back.

    `base_bytes` is the process's own memory. `unwritten_bytes` wait for the disk, `uncommitted_bytes` for other
    primaries. `disk_problem` says why the disk takes nothing, and is empty where it does.

    Publishers wait while `used_bytes` are above `high_bytes`, until they are below nine tenths of it: so the alarm does
    not flutter. They also wait while too much is unwritten or uncommitted, until half of that is done. `alarm_cause` is
    the cause of the last alarm.
    """

    __slots__ = (
        "alarm",
        "alarm_cause",
        "base_bytes",
        "disk_problem",
        "held_bytes",
        "high_bytes",
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
        self.disk_problem = ""
        self.alarm = False
        self.alarm_cause: Literal["memory", "disk", "log"] = "memory"

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
        """Whether the messages that were half received when the alarm began take too much memory as well."""
        return self.alarm and self.used_bytes > self.high_bytes * 5 // 4

    def alarm_changed(self) -> bool:
        """Compute `alarm` again. Returns whether it has changed."""
        cause_before = self.alarm_cause if self.alarm else ""
        now = True
        if self.used_bytes > (self.high_bytes * 9 // 10 if cause_before == "memory" else self.high_bytes):
            self.alarm_cause = "memory"
        elif self.unwritten_bytes > self.unwritten_bytes_max // (2 if cause_before == "disk" else 1):
            self.alarm_cause = "disk"
        elif self.uncommitted_bytes > UNCOMMITTED_BYTES_MAX // (2 if cause_before == "log" else 1):
            self.alarm_cause = "log"
        else:
            now = False
        changed = now is not self.alarm
        self.alarm = now
        return changed

    @property
    def reason(self) -> str:
        """Why publishers wait: the text of connection.blocked."""
        if self.alarm_cause == "memory":
            return "low on memory"
        if self.alarm_cause == "log":
            return "the other primaries are slower than what is published"
        return f"disk: {self.disk_problem or 'slower than what is published'}"[:REASON_CHARACTERS_MAX]
