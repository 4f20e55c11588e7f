"""An estimate of the clients that every broker has now: the roster is a second or two old."""

from __future__ import annotations

from collections import deque

from openclust.cluster.protocol.roster import BrokerInfo, Roster

FORGET_MS = 4_000
"""The roster counts a client that was sent to another broker within this time, or never."""

SENT_GRAIN_MS = 50
"""Clients sent to one broker within this time are one entry, which bounds the number of entries."""

PACE_MIN_MS = 250
"""Two counts that are closer in time than this do not give a pace."""

EXPECT_MAX_MS = 2_500
"""A pace is assumed to go on for this long, if no newer roster comes."""


class LoadEstimate:
    """A broker that compares its own clients now with those of others a while ago always believes to have too many.

    Hence newcomers are assumed to go on coming to the others at the pace between their last two counts; and clients
    that this broker has sent there since are added. Call `heard` before every question.
    """

    def __init__(self) -> None:
        self._now_ms = 0
        self._brokers: tuple[BrokerInfo, ...] = ()
        self._counts: dict[str, _Count] = {}
        self._staying = 1.0

    def heard(self, roster: Roster, now_ms: int) -> None:
        """Take the current roster. One that differs only in the root says nothing new of the load."""
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
        # Wherever newcomers were sent, all brokers together have gained those that came and have not left.
        if came:
            self._staying = min(1.0, max(0, gained) / came)

    def sent(self, name: str) -> None:
        """Count a client that is sent to this broker of the roster."""
        self._counts[name].send(self._now_ms)

    def clients(self, name: str) -> float:
        """How many clients a broker of the roster has by now, those included that were sent there from here."""
        count = self._counts[name]
        return count.connections + count.underway(self._now_ms) + self.expected(name)

    def expected(self, name: str) -> float:
        """How many of these are only assumed to have come."""
        return self._counts[name].expected(self._now_ms) * self._staying


class _Count:
    """The clients a broker had at `at_ms` of our clock, and those sent there from here that are not counted yet."""

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
            # A pace that has risen between two counts is higher than their mean: assume it goes on to rise.
            self._rising = max(0.0, pace - self._pace)
            self._pace = pace
        self.at_ms, self.connections = at_ms, info.connections
        # Some clients that were sent do not say so, and count as newcomers.
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
        """How many newcomers are assumed since the last count."""
        return (self._pace + self._rising) * min(EXPECT_MAX_MS, max(0, now_ms - self.at_ms))

    def _arrive(self, came: int) -> None:
        """So many have arrived there. Those sent from here before that count are taken to be among them."""
        while came and self._sent and self._sent[0][0] <= self.at_ms:
            arrived = min(came, self._sent[0][1])
            came -= arrived
            self._sent_total -= arrived
            self._sent[0][1] -= arrived
            if not self._sent[0][1]:
                self._sent.popleft()
