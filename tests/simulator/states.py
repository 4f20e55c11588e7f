"""What brokers hold at each place of the log: those at the same place hold the same."""

from __future__ import annotations

from typing import TypeAlias

from openclust.broker.journal.journal import SHARED
from openclust.broker.model.changes import Change
from openclust.broker.server.broker import Broker
from openclust.cluster.protocol.status import Position
from tests.simulator.host import Host
from tests.simulator.invariants import Violation
from tests.support.shared_state import digest, shared_state

LOOKS_EVERY = 4

Held: TypeAlias = dict[str, list[tuple[int, bytes]]]
"""Of each queue: the places that are taken, and the bodies."""


class States:
    """Definitions are looked at wherever a broker is; queues now and then, and not of a root, which is ahead."""

    def __init__(self) -> None:
        self._definitions: dict[Position, tuple[str, list[Change]]] = {}
        self._queues: dict[Position, tuple[str, Held]] = {}

    def look_at(self, host: Host, *, closely: bool = False) -> None:
        """`closely`: nothing happens any more."""
        position = host.running.membership.replica.position
        core = host.running.broker
        if host.running.membership.is_alone:
            # It has nobody to be equal to, and what is not durable goes with it.
            return
        queues = [queue for vhost in core.vhosts.values() for queue in vhost.queues.values()]
        if any(queue.owner is not None and not queue.name.startswith("amq.gen-") for queue in queues):
            # A private queue may hide a shared one of its name, until it goes.
            return
        self._look_at_definitions(host.name, position, core)
        is_root = host.running.membership.is_root
        if host.is_primary and (closely or (not is_root and position.sequence % LOOKS_EVERY == 0)):
            self._look_at_queues(host.name, position, core)

    def _look_at_definitions(self, who: str, position: Position, core: Broker) -> None:
        changes = shared_state(core)
        name, before = self._definitions.setdefault(position, (who, changes))
        if changes != before and digest(changes) != digest(before):
            less = [str(each) for each in before if each not in changes]
            more = [str(each) for each in changes if each not in before]
            text = f"{who} has other definitions at {position} than {name} had:"
            raise Violation(f"{text} {', '.join(less) or 'nothing'} not, but {', '.join(more) or 'nothing'}")

    def _look_at_queues(self, who: str, position: Position, core: Broker) -> None:
        held = _held(core)
        name, before = self._queues.setdefault(position, (who, held))
        if held != before:
            wrong = sorted(queue for queue in held.keys() | before.keys() if held.get(queue) != before.get(queue))
            told = "; ".join(f"{queue}: {held.get(queue)} instead of {before.get(queue)}" for queue in wrong)
            raise Violation(f"{who} has other messages at {position} than {name} had: {told}")


def _held(core: Broker) -> Held:
    return {
        f"{vhost.name} {queue.name}": sorted(
            (entry.seq, entry.message.body) for entry in [*queue.backlog, *queue.recorded_unacked.values()]
        )
        for vhost in core.vhosts.values()
        for queue in vhost.queues.values()
        if queue.durability_level == SHARED and (queue.backlog or queue.recorded_unacked)
    }
