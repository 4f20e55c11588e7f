"""How the clients of one run attach to brokers, lose them and attach again: a loop over short steps of time.

Everything in a step happens at its middle, except faults, which have their own times. A broker that does not run during
the whole step attaches nobody in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from openclust.cluster.placing.rebalance import ROUND_MS
from openclust.cluster.protocol.roster import Roster
from topology.simulate.clients.backoff import OPEN_ROUND_TRIPS, interval_ms, spread
from topology.simulate.clients.broker_admission import HERE, BrokerAdmission
from topology.simulate.clients.cohort import Attempt, ClientSession, Ids, Want, merged, united
from topology.simulate.input.calibration import Calibration
from topology.simulate.input.layout import Layout
from topology.simulate.input.timeline import NOBODY, Timeline
from topology.simulate.input.workload import ClientGroup

STEP_MIN_MS = 10
STEP_MAX_MS = 100
PASSES = 2
"""Passes over the brokers in a step, so that a client can be redirected and attached in the same step."""


def attach(
    layout: Layout,
    groups: Sequence[ClientGroup],
    attempts: Iterable[Attempt],
    timeline: Timeline,
    calibration: Calibration,
    bin_ms: int,
) -> list[ClientSession]:
    """The sessions of all clients, from the first attempt to the end of the run. `groups` are by their numbers."""
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
        self._admissions = [
            BrokerAdmission(layout, number, calibration, staying) for number in range(len(layout.sites))
        ]
        self._noted = [admission.presence() for admission in self._admissions]
        self._noted_ms = 0
        self._arrivals: dict[int, dict[tuple[int, Want], list[Ids]]] = defaultdict(lambda: defaultdict(list))
        """The arrivals of each step, by the broker that they try: -1 stands for any that they know."""
        self._accepting: list[int] = []
        self._sessions: list[ClientSession] = []
        self._turn = 0

        self._starts = sorted((begin, broker) for broker, begin, _ in timeline.ups if begin)
        self._ends = sorted((end, broker) for broker, _, end in timeline.ups if end < self._end_ms)
        if self._only_root:
            # A broker that is no longer active closes its connections.
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
                self._noted = [admission.presence() for admission in self._admissions]
                self._noted_ms = now_ms
            if is_round and self._rebalances:
                self._rebalance(now_ms)
            if step in self._arrivals or any(admission.queue for admission in self._admissions):
                self._step(step)
        return self._finish()

    # -- arrivals

    def _expect(self, attempts: Iterable[Attempt]) -> None:
        """Record first attempts. Members of one group that come at one time are one row."""
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
        """Let them try again after a wait: at that broker, or at those they know."""
        shortest, longest = interval_ms(want.tries)
        first, last = (now_ms + shortest) // self._step_ms, (now_ms + longest - 1) // self._step_ms
        self._turn += 1
        again = want._replace(tries=want.tries + 1, is_redirected=broker != NOBODY)
        for slot, count in enumerate(spread(ids.count, last - first + 1, self._turn)):
            self._later(first + slot, broker, again, ids.take(count))

    def _arrive(self, now_ms: int, broker: int, want: Want, ids: Ids) -> None:
        """They arrive at this broker. If it does not run, they try the others that they know, or wait if none runs."""
        if broker in self._accepting:
            self._admissions[broker].wait(want, ids)
            return
        known = [each for each in self._known(want) if each in self._accepting]
        if not known:
            self._retry(now_ms, want, ids)
            return
        self._turn += 1
        for target, part in zip(known, ids.parts(len(known), self._turn), strict=True):
            if part.count:
                self._admissions[target].wait(want._replace(is_redirected=False), part)

    def _known(self, want: Want) -> list[int]:
        """The brokers that a client knows: all, once it was attached and got known-hosts, if it follows redirects."""
        group = self._groups[want.grp]
        known = [self._names[name] for name in group.brokers if name in self._names]
        return known if known and (want.is_new or not group.follows) else list(range(len(self._admissions)))

    # -- a step

    def _step(self, step: int) -> None:
        now_ms = step * self._step_ms
        middle_ms = now_ms + self._step_ms // 2
        if middle_ms >= self._end_ms:
            return
        self._accepting = self._who_accepts(now_ms)
        if not self._accepting:
            for admission in self._admissions:
                for want, ids in admission.dismiss():
                    self._retry(now_ms, want._replace(is_redirected=False), ids)
        for (broker, want), several in sorted(self._arrivals.pop(step, {}).items()):
            self._arrive(now_ms, broker, want, united(several))
        open_admissions = [(number, self._admissions[number]) for number in self._accepting]
        for _, admission in open_admissions:
            admission.open(self._step_ms)
        for number in range(PASSES):
            sent = [(broker, *one) for broker, admission in open_admissions for one in admission.serve(now_ms)]
            self._send(step, middle_ms, sent, is_last=number == PASSES - 1)
        for _, admission in open_admissions:
            admission.close()

    def _who_accepts(self, now_ms: int) -> list[int]:
        until_ms = min(now_ms + self._step_ms, self._end_ms)
        timeline = self._timeline
        there = [each for each in range(len(self._admissions)) if timeline.is_up(each, now_ms, until_ms)]
        if not self._only_root:
            return there
        root = next((root for begin, end, root in timeline.roots if begin <= now_ms and until_ms <= end), NOBODY)
        # The others refuse clients, unless they know the active broker.
        return [each for each in there if root in there and timeline.hears(each, root, now_ms)]

    def _send(self, step: int, middle_ms: int, sent: list[tuple[int, Want, str, Ids]], *, is_last: bool) -> None:
        """Carry out the brokers' decisions: attach clients, or send them on to another broker."""
        now_ms = step * self._step_ms
        for broker, want, target, ids in sent:
            if target == HERE:
                at_ms = max(middle_ms, want.since_ms)
                self._write(want.grp, ids, NOBODY, want.since_ms, at_ms)
                self._admissions[broker].attach(want.grp, at_ms, ids)
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
        """Apply the faults of this step. A broker that returns accepts clients from its first whole step."""
        while self._ends and self._ends[0][0] < now_ms + self._step_ms:
            at_ms, broker = self._ends.pop(0)
            self._drop(broker, at_ms)
        while self._starts and self._starts[0][0] <= now_ms:
            _, broker = self._starts.pop(0)
            self._admissions[broker].start()
            self._noted[broker] = self._admissions[broker].presence()

    def _drop(self, broker: int, at_ms: int) -> None:
        lost: dict[int, list[Ids]] = defaultdict(list)
        for block in self._admissions[broker].leave():
            self._write(block.grp, block.ids, broker, block.from_ms, at_ms)
            lost[block.grp].append(block.ids)
        for grp, several in sorted(lost.items()):
            self._retry(at_ms, Want(grp, at_ms), united(several))
        for want, ids in self._admissions[broker].dismiss():
            self._retry(at_ms, want._replace(is_redirected=False), ids)

    def _has_changed(self, now_ms: int) -> bool:
        before = len(self._changes)
        while self._changes and self._changes[0] <= now_ms:
            self._changes.pop(0)
        return len(self._changes) < before

    def _tell(self, now_ms: int) -> None:
        """The root sends the roster to the brokers that it hears; others have no root (`membership/presences.py`)."""
        timeline = self._timeline
        root = timeline.root_at(now_ms)
        there = [number for number in range(len(self._admissions)) if timeline.is_up(number, now_ms)]
        heard = [number for number in there if root != NOBODY and timeline.hears(root, number, now_ms)]
        # What the root has heard of the others is half a second old; of itself it knows everything.
        age_ms = now_ms - self._noted_ms
        infos = sorted(
            (
                self._admissions[each].presence()
                if each == root
                else msgspec.structs.replace(self._noted[each], age_ms=age_ms)
                for each in heard
            ),
            key=lambda one: one.name,
        )
        roster = Roster(root=self._admissions[root].name if heard else "", brokers=tuple(infos))
        for number in there:
            admission = self._admissions[number]
            if number in heard:
                admission.roster = roster
            elif admission.roster.root:
                admission.roster = msgspec.structs.replace(admission.roster, root="")

    def _rebalance(self, now_ms: int) -> None:
        for broker, admission in enumerate(self._admissions):
            if not self._timeline.is_up(broker, now_ms, min(now_ms + self._step_ms, self._end_ms)):
                continue
            for block, target in admission.surplus(now_ms):
                self._write(block.grp, block.ids, broker, block.from_ms, now_ms)
                self._retry(now_ms, Want(block.grp, now_ms), block.ids, self._names[target])

    def _finish(self) -> list[ClientSession]:
        """End all sessions at the end of the run, those of waiting clients too."""
        for broker, admission in enumerate(self._admissions):
            for block in admission.leave():
                self._write(block.grp, block.ids, broker, block.from_ms, self._end_ms)
            for want, ids in admission.dismiss():
                self._write(want.grp, ids, NOBODY, want.since_ms, self._end_ms)
        for coming in self._arrivals.values():
            for (_, want), several in coming.items():
                self._write(want.grp, united(several), NOBODY, want.since_ms, self._end_ms)
        return merged(self._sessions)
