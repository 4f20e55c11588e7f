"""How many clients every broker has by now: the roster tells only how many it had a second or two ago."""

from __future__ import annotations

from collections import deque

from openclust.cluster.protocol.roster import BrokerInfo, Roster

FORGET_MS = 4_000
"""A client that was sent away is counted where it arrived within this time, or it never will be."""

SENT_GRAIN_MS = 50
"""Who is sent to one broker within this time is kept as one entry, which bounds them."""

PACE_MIN_MS = 250
"""Two counts that are nearer to each other say nothing of a pace."""

EXPECT_MAX_MS = 2_500
"""A pace is taken to go on for so long, if no newer roster comes."""


class LoadEstimate:
    """Who compares its own clients of this moment with the others' of a while ago always believes to have too many.

    Hence as many are thought to go on coming to the others unasked as did between their last two counts; and whom we
    have sent there since, we count by ourselves. Call `heard` before every question.
    """

    def __init__(self) -> None:
        self._now_ms = 0
        self._brokers: tuple[BrokerInfo, ...] = ()
        self._counts: dict[str, _Count] = {}
        self._staying = 1.0

    def heard(self, roster: Roster, now_ms: int) -> None:
        """This is the roster now. The same brokers under another root are nothing new."""
        self._now_ms = now_ms
        if roster.brokers is self._brokers:
            return
        self._brokers = roster.brokers
        before, self._counts = self._counts, {}
        came = gained = 0
        for each in roster.brokers:
            count = self._counts[each.name] = before.get(each.name) or _Count(each, now_ms)
            came += max(0, each.newcomers - count.newcomers)
            gained += each.connections - count.connections
            count.renew(each, now_ms)
        # Wherever they were sent, all together have gained those who came and have not left.
        if came:
            self._staying = min(1.0, max(0, gained) / came)

    def sent(self, name: str) -> None:
        """Another client is sent to this broker of the roster."""
        self._counts[name].send(self._now_ms)

    def clients(self, name: str) -> float:
        """How many a broker of the roster has by now, if it keeps who comes; who is on the way from here included."""
        count = self._counts[name]
        return count.connections + count.underway(self._now_ms) + self.expected(name)

    def expected(self, name: str) -> float:
        """How many of these are only thought to have come."""
        return self._counts[name].expected(self._now_ms) * self._staying


class _Count:
    """What a broker had at `at_ms`, of our clock, and those whom we have sent there that are not in it."""

    __slots__ = ("_pace", "_redirected", "_rising", "_sent", "_sent_total", "at_ms", "connections", "newcomers")

    def __init__(self, info: BrokerInfo, now_ms: int) -> None:
        self.connections = info.connections
        self.at_ms = now_ms - info.age_ms
        self.newcomers = info.newcomers
        self._redirected = info.redirected
        self._pace = 0.0
        self._rising = 0.0
        self._sent: deque[list[int]] = deque()
        self._sent_total = 0

    def renew(self, info: BrokerInfo, now_ms: int) -> None:
        at_ms = now_ms - info.age_ms
        newcomers = max(0, info.newcomers - self.newcomers)
        if at_ms - self.at_ms >= PACE_MIN_MS:
            pace = newcomers / (at_ms - self.at_ms)
            # What has begun between two counts is seen in part only.
            self._rising = max(0.0, pace - self._pace)
            self._pace = pace
        self.at_ms, self.connections = at_ms, info.connections
        # Some clients do not say that they were sent.
        self._arrive(newcomers + max(0, info.redirected - self._redirected))
        self.newcomers, self._redirected = info.newcomers, info.redirected

    def send(self, now_ms: int) -> None:
        if self._sent and now_ms - self._sent[-1][0] < SENT_GRAIN_MS:
            self._sent[-1][1] += 1
        else:
            self._sent.append([now_ms, 1])
        self._sent_total += 1

    def underway(self, now_ms: int) -> int:
        while self._sent and now_ms - self._sent[0][0] > FORGET_MS:
            self._sent_total -= self._sent.popleft()[1]
        return self._sent_total

    def expected(self, now_ms: int) -> float:
        """How many have come there unasked since."""
        return (self._pace + self._rising) * min(EXPECT_MAX_MS, max(0, now_ms - self.at_ms))

    def _arrive(self, came: int) -> None:
        """Of those that came there, ours are who were sent before it counted."""
        while came and self._sent and self._sent[0][0] <= self.at_ms:
            arrived = min(came, self._sent[0][1])
            came -= arrived
            self._sent_total -= arrived
            self._sent[0][1] -= arrived
            if not self._sent[0][1]:
                self._sent.popleft()
