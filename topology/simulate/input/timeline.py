"""The states of one run over time, as its faults make them: running brokers, the root, brokers that are cut off."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from topology.simulate.input.calibration import Calibration
from topology.simulate.input.fault import Add, Fault, Kill, Partition, Return
from topology.simulate.input.layout import Layout

NOBODY = -1


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers are numbers, times are in ms; every span ends before its `to`.

    `skipped`: faults that change nothing in this run: they name no broker of its layout, one that is not in the state
    they mean, or a time after its end.
    """

    duration_ms: int
    detect_ms: int
    ups: tuple[tuple[int, int, int], ...]
    """(broker, from, to): its process runs."""
    roots: tuple[tuple[int, int, int], ...]
    """(from, to, broker), without a gap over the whole run; broker -1: there is no root."""
    cuts: tuple[tuple[int, int, int, int], ...]
    """(broker, broker of a higher number, from, to): they do not reach each other. Messages between them are lost."""
    skipped: tuple[Fault, ...] = ()

    def is_up(self, broker: int, from_ms: int, to_ms: int | None = None) -> bool:
        """Whether the broker's process runs at that moment, or for the whole span."""
        until_ms = from_ms + 1 if to_ms is None else to_ms
        return any(one == broker and begin <= from_ms and until_ms <= end for one, begin, end in self.ups)

    def root_at(self, at_ms: int) -> int:
        return next((root for begin, end, root in self.roots if begin <= at_ms < end), NOBODY)

    def hears(self, one: int, other: int, at_ms: int) -> bool:
        """Whether one broker believes that it reaches the other. It notices a cut after a while, its end at once."""
        pair = (min(one, other), max(one, other))
        return not any((a, b) == pair and begin + self.detect_ms <= at_ms < end for a, b, begin, end in self.cuts)

    def changes(self) -> list[int]:
        """All moments after the first at which a broker may see the cluster in another way."""
        times = {time for _, *span in self.ups for time in span}
        times |= {begin for begin, _, _ in self.roots}
        times |= {time for _, _, begin, end in self.cuts for time in (begin + self.detect_ms, end)}
        return sorted(time for time in times if 0 < time < self.duration_ms)


def timeline(layout: Layout, faults: Sequence[Fault], calibration: Calibration, duration_ms: int) -> Timeline:
    """The timeline of this layout's brokers under these faults."""
    skipped: list[Fault] = []
    there = Timeline(
        duration_ms=duration_ms,
        detect_ms=round(calibration.detect_ms),
        ups=_ups(layout, faults, duration_ms, skipped),
        cuts=_cuts(layout, faults, duration_ms, skipped),
        roots=(),
    )
    # A single broker needs nobody's vote.
    election_ms = 0 if layout.design == "single" else round(calibration.election_ms)
    reigns = _Reigns(layout, there, election_ms).all()
    in_order = tuple(each for each in faults if any(each is one for one in skipped))
    return msgspec.structs.replace(there, roots=reigns, skipped=in_order)


def _ups(
    layout: Layout, faults: Sequence[Fault], duration_ms: int, skipped: list[Fault]
) -> tuple[tuple[int, int, int], ...]:
    names = layout.names
    later = {each.broker for each in faults if isinstance(each, Add)}
    since = {number: 0 for number, name in enumerate(names) if name not in later}
    spans: list[tuple[int, int, int]] = []
    singles = [each for each in faults if not isinstance(each, Partition)]
    for fault in sorted(singles, key=lambda each: each.at_ms):
        number = names.index(fault.broker) if fault.broker in names else NOBODY
        if number == NOBODY or fault.at_ms >= duration_ms or isinstance(fault, Kill) is not (number in since):
            # A broker that is added after the end is absent for the whole run, which matters.
            if number == NOBODY or not isinstance(fault, Add) or number in since:
                skipped.append(fault)
        elif isinstance(fault, Kill):
            spans.append((number, since.pop(number), fault.at_ms))
        else:
            assert isinstance(fault, Return | Add)
            since[number] = fault.at_ms
    spans += [(number, begin, duration_ms) for number, begin in since.items()]
    return tuple(sorted(span for span in spans if span[1] < span[2]))


def _cuts(
    layout: Layout, faults: Sequence[Fault], duration_ms: int, skipped: list[Fault]
) -> tuple[tuple[int, int, int, int], ...]:
    names = layout.names
    cuts: set[tuple[int, int, int, int]] = set()
    for fault in faults:
        if not isinstance(fault, Partition):
            continue
        left, right = ([names.index(name) for name in side if name in names] for side in fault.sides)
        until_ms = min(fault.until_ms, duration_ms)
        if not left or not right or fault.at_ms >= until_ms:
            skipped.append(fault)
            continue
        cuts |= {(min(a, b), max(a, b), fault.at_ms, until_ms) for a in left for b in right}
    return tuple(sorted(cuts))


class _Reigns:
    """The result of the brokers' election (`openclust.cluster.election.election`), without its messages."""

    def __init__(self, layout: Layout, there: Timeline, election_ms: int) -> None:
        self._there = there
        self._election_ms = election_ms
        self._primaries = layout.primaries
        self._stamps = dict.fromkeys(self._primaries, 0)
        """The time at which each joined. The earlier one is senior; if they are equal, the first in the list."""

    def all(self) -> tuple[tuple[int, int, int], ...]:
        end_ms = self._there.duration_ms
        starts = {(broker, begin) for broker, begin, _ in self._there.ups}
        root, since_ms = self._electable(0), 0
        elect: tuple[int, int] | None = None
        reigns: list[tuple[int, int, int]] = []
        for now_ms in [*self._there.changes(), end_ms]:
            if elect is not None and elect[1] < now_ms:
                reigns.append((since_ms, elect[1], root))
                (root, since_ms), elect = elect, None
            for broker in self._primaries:
                if (broker, now_ms) in starts:
                    self._stamps[broker] = now_ms
            if root != NOBODY and ((root, now_ms) in starts or not self._stays(root, now_ms)):
                reigns.append((since_ms, now_ms, root))
                # A root that lost its quorum becomes junior to all others.
                self._stamps[root] = now_ms
                root, since_ms = NOBODY, now_ms
            if root == NOBODY:
                candidate = self._electable(now_ms)
                if candidate == NOBODY:
                    elect = None
                elif elect is None or elect[0] != candidate:
                    elect = candidate, now_ms + self._election_ms
        reigns.append((since_ms, end_ms, root))
        return tuple(each for each in reigns if each[0] < each[1])

    def _heard(self, primary: int, now_ms: int) -> list[int]:
        """The primaries that this one hears, and itself, the most senior first."""
        heard = [
            each
            for each in self._primaries
            if self._there.is_up(each, now_ms) and self._there.hears(primary, each, now_ms)
        ]
        return sorted(heard, key=lambda each: (self._stamps[each], each))

    def _stays(self, root: int, now_ms: int) -> bool:
        return self._there.is_up(root, now_ms) and 2 * len(self._heard(root, now_ms)) >= len(self._primaries)

    def _electable(self, now_ms: int) -> int:
        """The primary with the votes of all that it hears, if these are more than half of the defined ones."""
        for candidate in self._primaries:
            voters = self._heard(candidate, now_ms)
            is_enough = candidate in voters and 2 * len(voters) > len(self._primaries)
            if is_enough and all(self._heard(voter, now_ms)[0] == candidate for voter in voters):
                return candidate
        return NOBODY
