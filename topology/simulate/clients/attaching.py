"""How the clients of one run come to their brokers, lose them and come back: a recursion in short steps of time.

Within a step all that happens is said to happen in its middle; only faults have their own time. A broker that is not
there for the whole of a step takes nobody in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from openclust.cluster.placing.rebalance import ROUND_MS
from openclust.cluster.protocol.roster import Roster
from topology.simulate.clients.backoff import OPEN_ROUND_TRIPS, interval_ms, spread
from topology.simulate.clients.broker_admission import HERE, Desk
from topology.simulate.clients.cohort import Attempt, ClientSession, Ids, Want, merged, united
from topology.simulate.input.calibration import Calibration
from topology.simulate.input.layout import Layout
from topology.simulate.input.timeline import NOBODY, Timeline
from topology.simulate.input.workload import ClientGroup

STEP_MIN_MS = 10
STEP_MAX_MS = 100
PASSES = 2
"""In a step: who is sent on to a broker that is near is attached there in the same."""


def attach(
    layout: Layout,
    groups: Sequence[ClientGroup],
    attempts: Iterable[Attempt],
    timeline: Timeline,
    calibration: Calibration,
    bin_ms: int,
) -> list[ClientSession]:
    """Where every client is, from its first attempt to the end of the run. `groups` by their numbers."""
    step_ms = min(max(bin_ms, STEP_MIN_MS), STEP_MAX_MS)
    return _Attaching(layout, groups, timeline, calibration, step_ms).run(attempts)


class _Attaching:
    def __init__(
        self,
        layout: Layout,
        groups: Sequence[ClientGroup],
        timeline: Timeline,
        calibration: Calibration,
        step_ms: int,
    ) -> None:
        self._groups = groups
        self._timeline = timeline
        self._step_ms = step_ms
        self._end_ms = timeline.duration_ms
        self._only_root = layout.design == "active-passive"
        self._rebalances = layout.design == "openclust"
        self._names = {name: number for number, name in enumerate(layout.names)}
        staying = [each.number for each in groups if not each.follows]
        self._desks = [Desk(layout, number, calibration, staying) for number in range(len(layout.sites))]
        self._noted = [desk.presence() for desk in self._desks]
        self._noted_ms = 0
        self._arrivals: dict[int, dict[tuple[int, Want], list[Ids]]] = defaultdict(lambda: defaultdict(list))
        """By step, and by the broker they come to: -1 is any they know."""
        self._accepting: list[int] = []
        self._sessions: list[ClientSession] = []
        self._turn = 0

        self._starts = sorted((begin, broker) for broker, begin, _ in timeline.ups if begin)
        self._ends = sorted((end, broker) for broker, _, end in timeline.ups if end < self._end_ms)
        if self._only_root:
            # A broker that is active no more closes its connections.
            reigns = {(end, root) for _, end, root in timeline.roots if root != NOBODY and end < self._end_ms}
            self._ends = sorted({*self._ends, *reigns})
        self._changes = timeline.changes()

    def run(self, attempts: Iterable[Attempt]) -> list[ClientSession]:
        self._expect(attempts)
        for step in range(-(-self._end_ms // self._step_ms)):
            now_ms = step * self._step_ms
            self._fail(now_ms)
            is_round = step == 0 or now_ms // ROUND_MS != (now_ms - self._step_ms) // ROUND_MS
            if self._has_changed(now_ms) or is_round:
                self._tell(now_ms)
            elif (now_ms + ROUND_MS // 2) // ROUND_MS != (now_ms - self._step_ms + ROUND_MS // 2) // ROUND_MS:
                self._noted = [desk.presence() for desk in self._desks]
                self._noted_ms = now_ms
            if is_round and self._rebalances:
                self._rebalance(now_ms)
            if step in self._arrivals or any(desk.queue for desk in self._desks):
                self._step(step)
        return self._finish()

    # -- who comes

    def _expect(self, attempts: Iterable[Attempt]) -> None:
        """Newcomers of one group and time are put in one row, and dealt out as the attempts say."""
        ranges: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        contacts: dict[tuple[int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for each in attempts:
            ranges[each.joins_ms, each.grp].append((each.first, each.last))
            contacts[each.joins_ms, each.grp][each.contact] += each.last - each.first + 1
        for (joins_ms, grp), found in sorted(ranges.items()):
            ids, want = Ids(found), Want(grp, joins_ms, is_new=True)
            for contact, count in sorted(contacts[joins_ms, grp].items()):
                self._later(joins_ms // self._step_ms, contact, want, ids.take(count))

    def _later(self, step: int, broker: int, want: Want, ids: Ids) -> None:
        if ids.count:
            self._arrivals[step][broker, want].append(ids)

    def _retry(self, now_ms: int, want: Want, ids: Ids, broker: int = NOBODY) -> None:
        """They wait and come again: to that broker, or to those they know."""
        shortest, longest = interval_ms(want.tries)
        first, last = (now_ms + shortest) // self._step_ms, (now_ms + longest - 1) // self._step_ms
        self._turn += 1
        again = want._replace(tries=want.tries + 1, is_redirected=broker != NOBODY)
        for slot, count in enumerate(spread(ids.count, last - first + 1, self._turn)):
            self._later(first + slot, broker, again, ids.take(count))

    def _arrive(self, now_ms: int, broker: int, want: Want, ids: Ids) -> None:
        """They come to this broker; who finds it gone goes on to the others it knows, and waits if there is none."""
        if broker in self._accepting:
            self._desks[broker].wait(want, ids)
            return
        known = [each for each in self._known(want) if each in self._accepting]
        if not known:
            self._retry(now_ms, want, ids)
            return
        self._turn += 1
        for target, part in zip(known, ids.parts(len(known), self._turn), strict=True):
            if part.count:
                self._desks[target].wait(want._replace(is_redirected=False), part)

    def _known(self, want: Want) -> list[int]:
        """A client that follows redirects has learnt of all brokers when it was attached (known-hosts)."""
        group = self._groups[want.grp]
        known = [self._names[name] for name in group.brokers if name in self._names]
        return known if known and (want.is_new or not group.follows) else list(range(len(self._desks)))

    # -- a step

    def _step(self, step: int) -> None:
        now_ms = step * self._step_ms
        middle_ms = now_ms + self._step_ms // 2
        if middle_ms >= self._end_ms:
            return
        self._accepting = self._who_accepts(now_ms)
        if not self._accepting:
            for desk in self._desks:
                for want, ids in desk.dismiss():
                    self._retry(now_ms, want._replace(is_redirected=False), ids)
        for (broker, want), several in sorted(self._arrivals.pop(step, {}).items()):
            self._arrive(now_ms, broker, want, united(several))
        open_desks = [(number, self._desks[number]) for number in self._accepting]
        for _, desk in open_desks:
            desk.open(self._step_ms)
        for number in range(PASSES):
            sent = [(broker, *one) for broker, desk in open_desks for one in desk.serve(now_ms)]
            self._send(step, middle_ms, sent, is_last=number == PASSES - 1)
        for _, desk in open_desks:
            desk.close()

    def _who_accepts(self, now_ms: int) -> list[int]:
        until_ms = min(now_ms + self._step_ms, self._end_ms)
        timeline = self._timeline
        there = [each for each in range(len(self._desks)) if timeline.is_up(each, now_ms, until_ms)]
        if not self._only_root:
            return there
        root = next((root for begin, end, root in timeline.roots if begin <= now_ms and until_ms <= end), NOBODY)
        # The others refuse, unless they know where the active one is.
        return [each for each in there if root in there and timeline.hears(each, root, now_ms)]

    def _send(self, step: int, middle_ms: int, sent: list[tuple[int, Want, str, Ids]], *, is_last: bool) -> None:
        """What desks have decided: attached there, or on the way to another."""
        now_ms = step * self._step_ms
        for broker, want, target, ids in sent:
            if target == HERE:
                at_ms = max(middle_ms, want.since_ms)
                self._write(want.grp, ids, NOBODY, want.since_ms, at_ms)
                self._desks[broker].attach(want.grp, at_ms, ids)
                continue
            self._sessions += [ClientSession(want.grp, *each, broker, middle_ms, middle_ms) for each in ids]
            on = want._replace(is_redirected=True)
            delay = max(self._delay_ms(want.grp) // self._step_ms, 1 if is_last else 0)
            if delay:
                self._later(step + delay, self._names[target], on, ids)
            else:
                self._arrive(now_ms, self._names[target], on, ids)

    def _delay_ms(self, grp: int) -> int:
        group = self._groups[grp]
        return OPEN_ROUND_TRIPS * (2 * group.latency_us + group.jitter_us) // 1_000

    def _write(self, grp: int, ids: Ids, broker: int, from_ms: int, to_ms: int) -> None:
        if from_ms < to_ms:
            self._sessions += [ClientSession(grp, *each, broker, from_ms, to_ms) for each in ids]

    # -- faults, the roster, rebalancing

    def _fail(self, now_ms: int) -> None:
        """Up to the end of this step. Who comes back accepts from the first step that it is there for all of."""
        while self._ends and self._ends[0][0] < now_ms + self._step_ms:
            at_ms, broker = self._ends.pop(0)
            self._drop(broker, at_ms)
        while self._starts and self._starts[0][0] <= now_ms:
            _, broker = self._starts.pop(0)
            self._desks[broker].start()
            self._noted[broker] = self._desks[broker].presence()

    def _drop(self, broker: int, at_ms: int) -> None:
        lost: dict[int, list[Ids]] = defaultdict(list)
        for block in self._desks[broker].leave():
            self._write(block.grp, block.ids, broker, block.from_ms, at_ms)
            lost[block.grp].append(block.ids)
        for grp, several in sorted(lost.items()):
            self._retry(at_ms, Want(grp, at_ms), united(several))
        for want, ids in self._desks[broker].dismiss():
            self._retry(at_ms, want._replace(is_redirected=False), ids)

    def _has_changed(self, now_ms: int) -> bool:
        before = len(self._changes)
        while self._changes and self._changes[0] <= now_ms:
            self._changes.pop(0)
        return len(self._changes) < before

    def _tell(self, now_ms: int) -> None:
        """The root tells all that it hears who is there; the others have no root (`membership/presences.py`)."""
        timeline = self._timeline
        root = timeline.root_at(now_ms)
        there = [number for number in range(len(self._desks)) if timeline.is_up(number, now_ms)]
        heard = [number for number in there if root != NOBODY and timeline.hears(root, number, now_ms)]
        # What others have said of themselves is half a second old. The root knows itself.
        age_ms = now_ms - self._noted_ms
        infos = sorted(
            (
                self._desks[each].presence()
                if each == root
                else msgspec.structs.replace(self._noted[each], age_ms=age_ms)
                for each in heard
            ),
            key=lambda one: one.name,
        )
        roster = Roster(root=self._desks[root].name if heard else "", brokers=tuple(infos))
        for number in there:
            desk = self._desks[number]
            if number in heard:
                desk.roster = roster
            elif desk.roster.root:
                desk.roster = msgspec.structs.replace(desk.roster, root="")

    def _rebalance(self, now_ms: int) -> None:
        for broker, desk in enumerate(self._desks):
            if not self._timeline.is_up(broker, now_ms, min(now_ms + self._step_ms, self._end_ms)):
                continue
            for block, target in desk.surplus(now_ms):
                self._write(block.grp, block.ids, broker, block.from_ms, now_ms)
                self._retry(now_ms, Want(block.grp, now_ms), block.ids, self._names[target])

    def _finish(self) -> list[ClientSession]:
        """Whoever is somewhere is there to the end, and who waits, waits."""
        for broker, desk in enumerate(self._desks):
            for block in desk.leave():
                self._write(block.grp, block.ids, broker, block.from_ms, self._end_ms)
            for want, ids in desk.dismiss():
                self._write(want.grp, ids, NOBODY, want.since_ms, self._end_ms)
        for coming in self._arrivals.values():
            for (_, want), several in coming.items():
                self._write(want.grp, united(several), NOBODY, want.since_ms, self._end_ms)
        return merged(self._sessions)
