"""What a run came to, and whether that is fine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.torture.gaps import NOTABLE_S
from tests.torture.ledger import Arrival, Count, Lost
from tests.torture.traffic import Outcome

_TRACEBACK = re.compile(
    r"""^(?P<whole>Traceback\ \(most\ recent\ call\ last\):\n(?:\ .*\n)*.*)
    | ^\S+\ ERROR\ .*?(?P<line>\w+(?:Error|Exception|Failure)\b.*\.py:\d+\ .*)$""",
    re.MULTILINE | re.VERBOSE,
)
TRACES_MAX = 20
TRACE_CHARACTERS_MAX = 2_000


class Happened(msgspec.Struct):
    """A fault. Times are of the monotonic clock of this machine; 0: it was never mended by itself."""

    kind: str
    told: str
    began: float
    ended: float = 0.0

    @property
    def name(self) -> str:
        """The kind, told for people, without who it was."""
        return self.told.partition(" (")[0]


class Outage(msgspec.Struct, frozen=True):
    """The longest time without any confirm after faults of one kind."""

    name: str
    count: int
    longest_s: float
    median_s: float


class Verdict(msgspec.Struct):
    seed: int
    seconds: float
    faults: list[str]
    began: float
    wall_clock_offset_s: float
    """What is to be added to a time here to find it in a log."""
    happened: list[Happened]
    outcome: Outcome
    problems: list[str]
    whole_again_s: float
    disk_bytes: dict[str, int]
    folder: str

    @property
    def counts(self) -> list[Count]:
        return self.outcome.counts

    @property
    def lost(self) -> int:
        return sum(count.lost_count for count in self.counts)

    @property
    def is_fine(self) -> bool:
        return not self.failures()

    def failures(self) -> list[str]:
        """What must not be, a line each."""
        found = []
        counts = self.counts
        if self.lost:
            found.append(f"{self.lost} confirmed messages lost")
        if disordered := sum(count.disordered_count for count in counts):
            found.append(f"{disordered} messages out of order")
        if strange := sum(len(count.never_sent) for count in counts):
            found.append(f"{strange} messages received that were never sent")
        if damaged := sum(len(count.damaged) for count in counts):
            found.append(f"{damaged} messages damaged")
        if unconfirmed := sum(count.unconfirmed for count in counts):
            found.append(f"{unconfirmed} messages not confirmed although all was well again")
        if self.outcome.returns:
            found.append(f"{self.outcome.returns} messages returned: their queue was not there")
        if found_late := self.outcome.found_by_new_consumers:
            found.append(f"consumers got nothing any more, although {found_late} messages were there for new ones")
        return found + self.problems

    def outages(self) -> list[Outage]:
        """Of every kind of fault. What two faults did together counts for both."""
        lengths: dict[str, list[float]] = {}
        for number, fault in enumerate(self.happened):
            later = [each.began for each in self.happened[number + 1 :] if each.began > max(fault.ended, fault.began)]
            until = min(later, default=float("inf"))
            # The last confirm before the next fault begins its gap, not this one's.
            gaps = [gap for gap in self.outcome.gaps if gap.until > fault.began and gap.since < until - NOTABLE_S]
            lengths.setdefault(fault.name, []).append(max((gap.length_s for gap in gaps), default=0.0))
        return [
            Outage(name, len(found), max(found), sorted(found)[len(found) // 2])
            for name, found in sorted(lengths.items())
        ]

    def where(self, lost: Lost) -> str:
        """Between which faults it was confirmed."""
        before = [each for each in self.happened if each.began <= lost.confirmed_at]
        after = [each for each in self.happened if each.began > lost.confirmed_at]
        told = [f"after {self._when(before[-1])}"] if before else []
        told += [f"before {self._when(after[0])}"] if after else []
        return f"confirmed {' and '.join(told)}"

    def _when(self, fault: Happened) -> str:
        return f"{fault.told} at {fault.began - self.began:.1f} s"

    def arrival(self, seen: Arrival) -> str:
        """What happened when, of a copy that came where it should not."""
        times = [f"{what} at {at - self.began:.2f} s" for what, at in _moments(seen) if at]
        return f"{seen.message_id} after {seen.after}, from {seen.through}: {', '.join(times)}"

    def lost_where(self) -> list[str]:
        """Lost messages of one queue that were confirmed between the same faults, together in a line."""
        found: dict[tuple[str, str], list[Lost]] = {}
        for count in self.counts:
            for lost in count.lost:
                found.setdefault((lost.queue, self.where(lost)), []).append(lost)
        return [
            f"{len(lost)} of {queue}, {lost[0].message_id} ({lost[0].confirmed_at - self.began:.2f} s) to "
            f"{lost[-1].message_id} ({lost[-1].confirmed_at - self.began:.2f} s), {where}"
            for (queue, where), lost in found.items()
        ]


def _moments(seen: Arrival) -> list[tuple[str, float]]:
    first = seen.first_received_at if seen.first_received_at != seen.received_at else 0.0
    return [
        ("sent", seen.first_sent_at),
        ("confirmed", seen.confirmed_at),
        ("first received", first),
        ("received", seen.received_at),
    ]


def traces(folder: Path, names: Iterable[str]) -> list[str]:
    """Every traceback in the log of one of these brokers is a mistake of ours, whatever was done to it.

    The log of a broker tells most of them in one line, with the places in brackets.
    """
    found: dict[str, list[str]] = {}
    for name in names:
        log = folder / f"{name}.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        for match in _TRACEBACK.finditer(text):
            found.setdefault(match["line"] or match["whole"], []).append(name)
    return [
        f"{len(where)} x in the logs of {', '.join(sorted(set(where)))}: {text[:TRACE_CHARACTERS_MAX]}"
        for text, where in list(found.items())[:TRACES_MAX]
    ]
