"""One broker's clients: those that wait to be attached, those that are, and those that it redirects."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Collection
from math import ceil

import msgspec

from openclust.cluster.placing.placing import Newcomer, Placing
from openclust.cluster.placing.rebalance import SCANNED_MAX, Rebalance
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from topology.simulate.clients.cohort import Ids, WaitingClients, Want
from topology.simulate.input.calibration import Calibration
from topology.simulate.input.layout import Layout

DECISIONS = 32
"""About the most placing decisions in a step. If more clients wait, several of them get one decision."""

HERE = ""
_NEW = Newcomer()
_REDIRECTED = Newcomer(is_redirected=True)


class Block(msgspec.Struct):
    """Clients that were attached at the same time."""

    grp: int
    from_ms: int
    ids: Ids


class BrokerAdmission:
    """Decides where clients go, by the broker's own code. Call `start` with its process, `heard` with the root's news.

    A step is `open`, then `serve` as often as clients arrive, then `close`. `staying` are the groups that do not follow
    redirects.
    """

    def __init__(self, layout: Layout, number: int, calibration: Calibration, staying: Collection[int]) -> None:
        site = layout.sites[number]
        self.name = site.name
        self.settings = msgspec.structs.replace(layout.redirect, weight=site.weight)
        self.queue: deque[WaitingClients] = deque()
        self.connections = 0
        self._waiting = 0
        self._key = layout.cluster_key
        # In the design "active-passive" a broker that is not active attaches no client at all.
        self._staying = frozenset(staying if layout.design != "active-passive" else ())
        self._attach_per_ms = calibration.attach_per_s / 1_000
        self._redirect_cost = max(0.01, calibration.open_us / calibration.attach_us if calibration.attach_us else 1.0)
        self._attached: list[Block] = []
        self._credit = 0.0
        self._info = BrokerInfo(
            name=site.name,
            partition="primary" if site.is_primary else "secondary",
            client=f"{site.name}:5672",
            weight=site.weight,
        )
        self.start()

    def start(self) -> None:
        """The broker's process starts, and knows of no other broker yet."""
        assert not self.connections and not self.queue
        self.roster = Roster()
        self._credit = 0.0
        self._placing = Placing(self.name, self._key, self.settings)
        self._rebalance = Rebalance(self.name, self.settings)

    def presence(self) -> BrokerInfo:
        placing = self._placing
        return msgspec.structs.replace(
            self._info,
            connections=self.connections,
            newcomers=placing.newcomers,
            redirected=placing.redirected,
        )

    # -- attaching

    def wait(self, want: Want, ids: Ids) -> None:
        self.queue.append(WaitingClients(want, ids))
        self._waiting += ids.count

    def open(self, step_ms: int) -> None:
        """A step begins: add its time for attaching clients."""
        self._credit += self._attach_per_ms * step_ms

    def close(self) -> None:
        """The step ends: time that was not used is lost."""
        if not self.queue:
            self._credit = 0.0

    def serve(self, now_ms: int) -> list[tuple[Want, str, Ids]]:
        """The clients at the head of the queue with their targets. Those with `HERE` are for `attach`."""
        if not self.queue:
            return []
        self._placing.heard(self.roster, now_ms)
        can = self._credit / min(1.0, self._redirect_cost)
        chunk = max(1, ceil(min(self._waiting, can) / DECISIONS))
        served: list[tuple[Want, str, Ids]] = []
        coming = 0
        while self.queue:
            want, ids = self.queue[0]
            sent = self._decide(want, ids.count, chunk, coming)
            coming += sent[HERE]
            self._waiting -= sent.total()
            # The clients of a target are consecutive, not in turns: members are exchangeable, and there are fewer rows.
            served += [(want, target, ids.take(count)) for target, count in sorted(sent.items()) if count]
            if ids.count:
                break
            self.queue.popleft()
        return served

    def _decide(self, want: Want, count: int, chunk: int, coming: int) -> Counter[str]:
        """How many of these clients go to each target, as far as the time of the step allows."""
        sent = Counter({HERE: 0})
        while count:
            own = self.connections + coming + sent[HERE]
            target = self._choose(want, own)
            cost = 1.0 if target is None else self._redirect_cost
            number = min(count, int(self._credit / cost + 1e-9))
            number = min(number, chunk if target is not None else self._staying_of(want, own, number, chunk))
            if not number:
                break
            self._placing.came(_REDIRECTED if want.is_redirected else _NEW, number)
            if target is not None:
                for _ in range(number):
                    self._placing.sent(target)
            sent[HERE if target is None else target.name] += number
            self._credit -= number * cost
            count -= number
        return sent

    def _staying_of(self, want: Want, own: int, count: int, chunk: int) -> int:
        """How many of them stay, from the first one on: after one is redirected, all later ones would be too."""
        decisions = range(chunk, count, chunk)
        staying = bisect_left(decisions, True, key=lambda more: self._choose(want, own + more) is not None)
        return chunk * (1 + staying)

    def _choose(self, want: Want, own: int) -> BrokerInfo | None:
        if want.grp in self._staying or len(self.roster.brokers) < 2:
            return None
        return self._placing.choose(_REDIRECTED if want.is_redirected else _NEW, own)

    def attach(self, grp: int, at_ms: int, ids: Ids) -> None:
        self.connections += ids.count
        self._attached.append(Block(grp, at_ms, ids))

    # -- leaving

    def leave(self) -> list[Block]:
        """The process has ended: return all attached clients, and forget them."""
        gone, self._attached, self.connections = self._attached, [], 0
        return gone

    def dismiss(self) -> list[WaitingClients]:
        """Return all waiting clients, and forget them."""
        gone = list(self.queue)
        self.queue.clear()
        self._waiting = 0
        return gone

    def surplus(self, now_ms: int) -> list[tuple[Block, str]]:
        """The clients that the broker moves away in this second to balance the load, as in `placing/moving.py`."""
        self._placing.heard(self.roster, now_ms)
        number = self._rebalance.surplus(self.roster, self.connections, now_ms)
        if not number or self.settings.rebalance_dry_run:
            return []
        targets = Counter(each.name for each in self._placing.plan(number, self.connections))
        moved: list[tuple[Block, str]] = []
        blocks = self._youngest(targets.total())
        for target, wanted in sorted(targets.items()):
            while wanted and blocks:
                ids = blocks[0].ids.take(min(wanted, blocks[0].ids.count))
                moved.append((Block(blocks[0].grp, blocks[0].from_ms, ids), target))
                wanted -= ids.count
                if not blocks[0].ids.count:
                    blocks.pop(0)
        return moved

    def _youngest(self, number: int) -> list[Block]:
        """Detach so many of the youngest clients that follow redirects."""
        found: list[Block] = []
        kept: list[Block] = []
        scanned = 0
        while number and self._attached and scanned < SCANNED_MAX:
            block = self._attached.pop()
            scanned += block.ids.count
            if block.grp in self._staying and self.settings.fallback != "close":
                kept.append(block)
                continue
            ids = block.ids.take(min(number, block.ids.count))
            if block.ids.count:
                kept.append(block)
            found.append(Block(block.grp, block.from_ms, ids))
            number -= ids.count
            self.connections -= ids.count
        self._attached += reversed(kept)
        return found
