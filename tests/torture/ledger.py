"""What became of every message: sent, confirmed, received, and in which order.

A message is one number of one stream; a stream is one publisher to one queue. Numbers ascend without gaps.
"""

from __future__ import annotations

from array import array

import msgspec

REPEATED = "redelivered"
"""A copy that the broker flagged as perhaps delivered before."""
REPUBLISHED = "republished"
"""A copy of what its publisher sent again, because no confirm had come."""
UNEXPLAINED = "unflagged"
"""The same copy again, and no flag. Its broker sent it to the next root again, as it had heard no verdict, and both
copies were kept; or a root delivered it that could tell nobody any more."""

TOLD_MAX = 1_000
ATTEMPTS_MAX = 255


class Lost(msgspec.Struct, frozen=True):
    """A message that was confirmed and never received. Times are of the monotonic clock of this machine."""

    message_id: str
    queue: str
    first_sent_at: float
    confirmed_at: float
    attempts: int


class Arrival(msgspec.Struct, frozen=True):
    """A copy that came where it should not, and what is known of its message."""

    message_id: str
    after: int
    """The highest number that had come before."""
    received_at: float
    through: str
    """The broker that it came from."""
    first_sent_at: float
    confirmed_at: float
    """0: not yet."""
    first_received_at: float


class Count(msgspec.Struct):
    """One queue's messages. Of each list only the first are told; `lost_count` counts all."""

    queue: str
    sent: int = 0
    confirmed: int = 0
    received: int = 0
    unconfirmed: int = 0
    lost_count: int = 0
    lost: list[Lost] = []
    duplicates: dict[str, int] = {}
    disordered: list[Arrival] = []
    disordered_count: int = 0
    unflagged: list[Arrival] = []
    """Of the duplicates that have no explanation by themselves."""
    never_sent: list[str] = []
    damaged: list[str] = []
    left: int = -1
    """Messages that the broker says are still in the queue; -1: it did not say."""


class Stream:
    """One publisher's messages to one queue. With `priorities`, order holds among those of one priority only.

    What its publisher had to send again has no place in the order: of what was refused, a copy may come yet.
    """

    def __init__(self, queue: str, publisher: int, priorities: int = 1) -> None:
        self.queue = queue
        self.publisher = publisher
        self.priorities = priorities
        self.duplicates: dict[str, int] = {}
        self.unflagged: list[Arrival] = []
        self.never_sent: list[str] = []
        self.damaged: list[str] = []
        self._attempts = bytearray()
        self._first_sent_at = array("d")
        self._confirmed_at = array("d")
        self._received_at = array("d")
        self._attempts_seen: dict[int, set[int]] = {}
        self._highest = [-1] * priorities
        # What came after later ones, as far as it was not sent again; and what is told of the first of those.
        self._disordered: set[int] = set()
        self._told: dict[int, Arrival] = {}
        self._unsettled = 0
        self.confirmed_count = 0

    def __len__(self) -> int:
        return len(self._attempts)

    @property
    def missing(self) -> int:
        """Confirmed and not received."""
        return self._unsettled

    def priority(self, number: int) -> int:
        return number % self.priorities

    def message_id(self, number: int) -> str:
        return f"{self.queue}/{self.publisher}/{number}"

    def body(self, number: int) -> bytes:
        """What a message says: its own name again and again, mostly some 100 bytes, sometimes some kilobytes."""
        size = 8_000 if number % 97 == 0 else 60 + number % 89
        name = f"{self.message_id(number)};".encode()
        return (name * (size // len(name) + 1))[:size]

    def new(self, now: float) -> int:
        """The number of one more message, sent for the first time."""
        self._attempts.append(1)
        self._first_sent_at.append(now)
        self._confirmed_at.append(0.0)
        self._received_at.append(0.0)
        return len(self._attempts) - 1

    def again(self, number: int) -> int:
        """It is sent once more, since it was refused, or nobody said what became of it: which attempt this is."""
        self._disordered.discard(number)
        self._told.pop(number, None)
        self._attempts[number] = min(self._attempts[number] + 1, ATTEMPTS_MAX)
        return self._attempts[number]

    def attempt(self, number: int) -> int:
        return self._attempts[number]

    def confirmed(self, number: int, now: float) -> None:
        if not self._confirmed_at[number]:
            self._confirmed_at[number] = now
            self.confirmed_count += 1
            self._unsettled += not self._received_at[number]

    def received(self, number: int, attempt: int, is_redelivered: bool, body: bytes, now: float, through: str) -> None:
        """A copy came, through this broker."""
        if not 0 <= number < len(self) or not 1 <= attempt <= self._attempts[number]:
            self._note(self.never_sent, f"{self.message_id(number)} (attempt {attempt})")
            return
        if body != self.body(number):
            self._note(self.damaged, self.message_id(number))
        if self._received_at[number]:
            self._count_duplicate(number, attempt, is_redelivered, now, through)
            return
        self._received_at[number] = now
        self._unsettled -= bool(self._confirmed_at[number])
        if self._attempts[number] > 1:
            self._attempts_seen[number] = {attempt}
        elif not is_redelivered:
            self._check_order(number, now, through)

    def _check_order(self, number: int, now: float, through: str) -> None:
        priority = self.priority(number)
        if number < self._highest[priority]:
            self._disordered.add(number)
            if len(self._told) < TOLD_MAX:
                self._told[number] = self._arrival(number, now, through)
        else:
            self._highest[priority] = number

    def _count_duplicate(self, number: int, attempt: int, is_redelivered: bool, now: float, through: str) -> None:
        # Of a message that was sent once when it came, only the first attempt can have come.
        seen = self._attempts_seen.setdefault(number, {1})
        kind = REPEATED if is_redelivered else UNEXPLAINED if attempt in seen else REPUBLISHED
        seen.add(attempt)
        self.duplicates[kind] = self.duplicates.get(kind, 0) + 1
        if kind == UNEXPLAINED and len(self.unflagged) < TOLD_MAX:
            self.unflagged.append(self._arrival(number, now, through))

    def _arrival(self, number: int, now: float, through: str) -> Arrival:
        return Arrival(
            self.message_id(number),
            self._highest[self.priority(number)],
            now,
            through,
            self._first_sent_at[number],
            self._confirmed_at[number],
            self._received_at[number],
        )

    def _note(self, told: list[str], text: str) -> None:
        if len(told) < TOLD_MAX:
            told.append(text)

    def lost(self) -> list[Lost]:
        return [
            Lost(self.message_id(number), self.queue, self._first_sent_at[number], at, self._attempts[number])
            for number, at in enumerate(self._confirmed_at)
            if at and not self._received_at[number]
        ]

    def add_to(self, count: Count) -> None:
        lost = self.lost()
        count.sent += len(self)
        count.confirmed += self.confirmed_count
        count.unconfirmed += len(self) - self.confirmed_count
        count.received += sum(at > 0 for at in self._received_at)
        count.lost_count += len(lost)
        count.lost = (count.lost + lost)[:TOLD_MAX]
        count.disordered = (count.disordered + list(self._told.values()))[:TOLD_MAX]
        count.unflagged = (count.unflagged + self.unflagged)[:TOLD_MAX]
        count.disordered_count += len(self._disordered)
        count.never_sent = (count.never_sent + self.never_sent)[:TOLD_MAX]
        count.damaged = (count.damaged + self.damaged)[:TOLD_MAX]
        for kind, number in sorted(self.duplicates.items()):
            count.duplicates[kind] = count.duplicates.get(kind, 0) + number


class Ledger:
    """All streams. What comes with a name that no stream has is kept, too: it was never sent."""

    def __init__(self) -> None:
        self.streams: dict[tuple[str, int], Stream] = {}
        self.nameless: dict[str, list[str]] = {}

    def stream(self, queue: str, publisher: int, priorities: int = 1) -> Stream:
        return self.streams.setdefault((queue, publisher), Stream(queue, publisher, priorities))

    def received(
        self, queue: str, message_id: str, attempt: object, is_redelivered: bool, body: bytes, now: float, through: str
    ) -> None:
        """A copy came out of this queue, through this broker."""
        told, _, rest = message_id.partition("/")
        publisher, _, number = rest.partition("/")
        known = publisher.isdecimal() and number.isdecimal() and isinstance(attempt, int)
        stream = self.streams.get((queue, int(publisher))) if known and told == queue else None
        if stream is None or not isinstance(attempt, int):
            names = self.nameless.setdefault(queue, [])
            if len(names) < TOLD_MAX:
                names.append(f"{message_id!r} (attempt {attempt})")
            return
        stream.received(int(number), attempt, is_redelivered, body, now, through)

    @property
    def missing(self) -> int:
        return sum(stream.missing for stream in self.streams.values())

    def counts(self) -> list[Count]:
        found: dict[str, Count] = {}
        for _, stream in sorted(self.streams.items()):
            stream.add_to(found.setdefault(stream.queue, Count(stream.queue)))
        for queue, names in sorted(self.nameless.items()):
            found.setdefault(queue, Count(queue)).never_sent += names
        return list(found.values())
