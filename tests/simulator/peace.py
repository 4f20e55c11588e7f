"""After the chaos: one root, all follow it, everybody knows what is wanted of it, and nothing is left behind."""

from __future__ import annotations

import traceback
from functools import partial

from openclust.broker.model.changes import DeleteExchange, DeleteQueue, DeleteVhost
from openclust.cluster.protocol.status import Position
from openclust.cluster.relay.meta_bindings import OTHERS, MetaBinding, meta_binding_of
from tests.simulator.host import Host
from tests.simulator.invariants import Violation
from tests.simulator.nodes import SLOW_START_US, Nodes
from tests.support.invariants import check

QUIET_US = 300_000
GONE_US = 400_000
AFTERMATH_US = 100_000
"""What follows of that: the longest is a goodbye."""


def settle(world: Nodes) -> int:
    """Wait for one root that all follow with equal logs; how many milliseconds that took."""
    began_us = world.now_us
    limit_ms = SLOW_START_US // 1_000 + world.terms.start_grace_ms + 15 * world.terms.heartbeat_ms
    if not world.run(until_us=world.now_us + limit_ms * 1_000, stop=lambda: bool(world.root())):
        raise Violation(f"no root that all follow, {limit_ms} ms after all was well")
    return (world.now_us - began_us) // 1_000


def look_at_all(world: Nodes, answer_us: int) -> None:
    """Applications do nothing more; when all is answered, all must be equal and nobody may wait for anything."""
    root = world.root()
    reign = world.reign_of(world.brokers[root])

    def is_answered() -> bool:
        return not any(each.since_us() is not None for host in world.brokers.values() for each in host.applications)

    if not is_answered() and not world.run(until_us=world.now_us + answer_us, stop=is_answered):
        raise Violation("not all is answered, though there is a root and nothing fails")
    for _ in range(2):
        # What a digest repairs, the root tells the others.
        for host in world.brokers.values():
            world.give(host, host.life, partial(_tell_digests, host))
        world.run(until_us=world.now_us + QUIET_US)
    if world.root() != root or world.reign_of(world.brokers[root]) != reign:
        raise Violation(f"{root} does not stay root of all, though all is well")
    hosts = list(world.brokers.values())
    wanted = {host.name: _wanted(host) for host in hosts}
    position = _rest(world, world.brokers[root])
    for host in hosts:
        if host.running.membership.replica.position != position:
            raise Violation(f"{host.name} is not where the log of {root} is")
        world.states.look_at(host, closely=True)
        _look_at(host)
        _look_at_interests(world, host, wanted)


def _rest(world: Nodes, root: Host) -> Position:
    """Where all are, once what may have expired just now is in the logs of all."""
    node = root.running

    def rests() -> bool:
        position = node.membership.replica.position
        all_there = all(each.running.membership.replica.position == position for each in world.brokers.values())
        return all_there and node.broker.journal.is_empty

    world.wait(rests, QUIET_US)
    return node.membership.replica.position


def _tell_digests(host: Host, now_ms: int) -> None:
    host.running.membership.tell_digests()


def _look_at(host: Host) -> None:
    membership = host.running.membership
    counts = {
        "asked questions": len(membership.root_requests),
        "early answers": len(membership.root_requests._early),
        "messages that wait for a root": membership.forwarding.waiting,
        "messages that the root has not settled": sum(map(len, membership.forwarding._sent.values())),
        "held connections": len(membership.forwarding._held_publishers),
        "changes that are not committed": membership.role.waiting,
    }
    left = {what: count for what, count in counts.items() if count}
    if left:
        raise Violation(f"{host.name} still has {left}")


def _check_broker(host: Host) -> None:
    try:
        check(host.running.broker)
    except AssertionError as error:
        raise Violation(f"{host.name}: {error or traceback.format_exc()}") from error


def _wanted(host: Host) -> set[MetaBinding]:
    """What its private queues want, by what is bound."""
    found = set()
    for vhost in host.running.broker.vhosts.values():
        for exchange in vhost.exchanges.values():
            for binding in exchange.bindings.values():
                if getattr(binding.target, "owner", None) is not None:
                    found.add(meta_binding_of(vhost.name, exchange.name, binding.routing_key, binding.arguments))
        for queue in vhost.queues.values():
            if queue.owner is not None:
                found.add(meta_binding_of(vhost.name, "", queue.name, {}))
    return found


def _look_at_interests(world: Nodes, host: Host, wanted: dict[str, set[MetaBinding]]) -> None:
    """What it holds of each other is what that wants; of those it has no link with, what they all want together."""
    interests = host.running.membership.meta_bindings
    if host.running.membership.is_alone:
        return
    if set(interests.own.counts) != wanted[host.name]:
        raise Violation(f"{host.name} counts {set(interests.own.counts) ^ wanted[host.name]} otherwise than bound")
    others = [each for each in world.brokers.values() if each is not host]
    expected = {each.name: wanted[each.name] for each in others if each.is_primary or host.is_primary}
    if not host.is_primary:
        expected[OTHERS] = set().union(*(wanted[each.name] for each in others if not each.is_primary))
    for name in sorted(expected.keys() | interests.held.keys()):
        held = set(interests.held[name].items()) if name in interests.held else set()
        want = expected.get(name, set())
        if held != want:
            raise Violation(f"{host.name} holds of {name!r} {held - want} too much, and {want - held} not")


def clean_up(world: Nodes) -> None:
    """All applications go, and all that was shared is deleted: no broker holds anything then."""
    for host in world.brokers.values():
        for application in list(host.applications):
            application.close()
    world.wait(lambda: not any(host.applications for host in world.brokers.values()), GONE_US)
    world.run(until_us=world.now_us + AFTERMATH_US)
    root = world.brokers[world.root()]

    def delete(now_ms: int) -> None:
        core = root.running.broker
        vhost = core.vhosts["/"]
        for name in sorted(core.vhosts.keys() - {"/"}):
            core.define(DeleteVhost(vhost=name))
        for name in sorted(vhost.queues):
            core.define(DeleteQueue(vhost="/", name=name))
        for name in sorted(vhost.exchanges):
            if name and not name.startswith("amq."):
                core.define(DeleteExchange(vhost="/", name=name))

    world.give(root, root.life, delete)
    world.wait(lambda: not any(_has_queues(host) for host in world.brokers.values()), GONE_US)
    world.run(until_us=world.now_us + AFTERMATH_US)
    for host in world.brokers.values():
        core = host.running.broker
        _look_at(host)
        _check_broker(host)
        world.states.look_at(host, closely=True)
        if core.memory_accounts.held_bytes or core.memory_accounts.outbox_bytes:
            accounts = core.memory_accounts
            raise Violation(f"{host.name} still holds {accounts.held_bytes} and {accounts.outbox_bytes} bytes")
        if _has_queues(host):
            raise Violation(f"{host.name} still has queues")
        held = {name: each.count for name, each in host.running.membership.meta_bindings.held.items() if each.count}
        if held or host.running.membership.meta_bindings.own.counts:
            raise Violation(f"{host.name} still holds meta-bindings of {held}")


def _has_queues(host: Host) -> bool:
    return any(vhost.queues for vhost in host.running.broker.vhosts.values())
