"""What all brokers of a cluster share, as the list of changes that builds it from nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.change_codec import encode_canonical, encode_change
from openclust.broker.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    PutPolicy,
    PutUser,
    PutVhost,
    perform,
)
from openclust.broker.exchange import Binding, Exchange
from openclust.broker.queue import Queue
from openclust.cluster.wanted import BindingKey, Kept, Wanted, is_declared, is_shared, key_of, same_policy
from openclust.wire.errors import AmqpError

if TYPE_CHECKING:
    from openclust.broker.access import User
    from openclust.broker.broker import Broker
    from openclust.broker.vhost import VirtualHost

NOTES_MAX = 10
"""How many failures of one reconciliation are noted one by one; the rest is only counted."""


def shared_state(broker: Broker) -> list[Change]:
    """The shared state of `broker`, each change after those it needs. Private queues and their bindings are no part."""
    changes: list[Change] = [PutVhost(vhost=name) for name in sorted(broker.vhosts)]
    changes += [PutUser(user=_copy(broker.users[name])) for name in sorted(broker.users)]
    for operator in (False, True):
        for policy in broker.policies.list(operator=operator):
            changes.append(PutPolicy(vhost=policy.vhost, policy=policy, operator=operator))
    for name in sorted(broker.vhosts):
        vhost = broker.vhosts[name]
        changes += [_exchange_change(vhost, each) for _, each in sorted(vhost.exchanges.items()) if is_declared(each)]
        changes += [_queue_change(vhost, each) for _, each in sorted(vhost.queues.items()) if each.owner is None]
        shared = {key_of(binding, packed): binding for binding, packed in _bindings(vhost) if is_shared(binding)}
        changes += [_binding_change(vhost, key, shared[key]) for key in sorted(shared)]
    return changes


def digest(changes: Iterable[Change]) -> str:
    """A short fingerprint: equal for equal states, in whatever order their changes and arguments come."""
    each = sorted(blake2b(encode_canonical(change), digest_size=16).digest() for change in changes)
    return blake2b(b"".join(each), digest_size=8).hexdigest()


def state_bytes(changes: Iterable[Change]) -> int:
    """How large the state is when it is sent or stored."""
    return sum(len(encode_change(change)) for change in changes)


def reconcile(broker: Broker, wanted: Iterable[Change]) -> int:
    """Make the shared state of `broker` what `wanted` builds, with the fewest changes; how many those were.

    What is as wanted keeps its messages and consumers; private queues keep theirs, unless their virtual host goes.
    What cannot be made is noted as an error, and nothing is raised.
    """
    work = _Reconciliation(broker, Wanted(wanted))
    work.run()
    return work.made


def _copy(user: User) -> User:
    # A broker changes its users in place.
    return msgspec.structs.replace(user, permissions=dict(user.permissions))


def _exchange_change(vhost: VirtualHost, exchange: Exchange) -> DeclareExchange:
    return DeclareExchange(
        vhost=vhost.name,
        name=exchange.name,
        type=exchange.type,
        durable=exchange.durable,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        arguments=exchange.arguments,
    )


def _queue_change(vhost: VirtualHost, queue: Queue) -> DeclareQueue:
    return DeclareQueue(
        vhost=vhost.name,
        name=queue.name,
        durable=queue.durable,
        auto_delete=queue.auto_delete,
        arguments=queue.arguments,
    )


def _binding_change(vhost: VirtualHost, key: BindingKey, binding: Binding) -> Bind:
    source, to_exchange, destination, routing_key, _ = key
    return Bind(
        vhost=vhost.name,
        source=source,
        destination=destination,
        to_exchange=to_exchange,
        routing_key=routing_key,
        arguments=binding.arguments,
    )


def _bindings(vhost: VirtualHost) -> Iterator[tuple[Binding, bytes]]:
    """All bindings, each with its arguments as its exchange tells them apart."""
    for exchange in vhost.exchanges.values():
        for (_, _, packed), binding in exchange.bindings.items():
            yield binding, packed


class _Reconciliation:
    """One way from what a broker has to what is wanted.

    All that must go goes before anything comes. A binding goes before what it leads to, and without telling its
    source: so no automatic deletion takes what is wanted.
    """

    def __init__(self, broker: Broker, wanted: Wanted) -> None:
        self.made = 0
        self._broker = broker
        self._wanted = wanted
        self._failed = 0
        self._kept: dict[str, Kept] = {}

    def run(self) -> None:
        for change, reason in self._wanted.unfit:
            self._fail(change, reason)
        self._vhosts()
        self._users()
        for name in sorted(self._broker.vhosts):
            self._clear(self._broker.vhosts[name])
        self._policies()
        for name in sorted(self._wanted.exchanges.keys() | self._wanted.queues.keys() | self._wanted.bindings.keys()):
            self._build(name)
        if self._failed > NOTES_MAX:
            self._broker.note("error", "more definitions could not be made here", count=self._failed - NOTES_MAX)

    def _vhosts(self) -> None:
        for name in sorted(self._broker.vhosts.keys() - self._wanted.vhosts.keys()):
            vhost = self._broker.vhosts[name]
            for binding, _ in list(_bindings(vhost)):
                if is_shared(binding):
                    self._drop(binding)
            self._broker.delete_vhost(name)
            self.made += 1
        for name, change in self._wanted.vhosts.items():
            if name not in self._broker.vhosts:
                self._perform(change)

    def _users(self) -> None:
        for name in sorted(self._broker.users.keys() - self._wanted.users.keys()):
            self._broker.delete_user(name)
            self.made += 1
        for name, change in self._wanted.users.items():
            if self._broker.users.get(name) != change.user:
                self._perform(PutUser(user=_copy(change.user)))

    def _policies(self) -> None:
        """All of them before any queue follows: on the way there, no queue is without its limits."""
        policies = self._broker.policies
        changed = set()
        there = {
            (policy.vhost, operator, policy.name): PutPolicy(vhost=policy.vhost, policy=policy, operator=operator)
            for operator in (False, True)
            for policy in policies.list(operator=operator)
        }
        for vhost, operator, name in sorted(there.keys() - self._wanted.policies.keys()):
            policies.delete(vhost, name, operator=operator)
            changed.add(vhost)
            self.made += 1
        for key, change in self._wanted.policies.items():
            if key in there and same_policy(there[key], change):
                continue
            if key[0] not in self._broker.vhosts:
                self._fail(change, f"no vhost '{key[0]}'")
                continue
            try:
                policies.set(change.policy, operator=change.operator)
            except ValueError as error:
                self._fail(change, str(error))
                continue
            changed.add(key[0])
            self.made += 1
        for name in sorted(changed & self._broker.vhosts.keys()):
            self._broker.vhosts[name].follow_policies()

    def _clear(self, vhost: VirtualHost) -> None:
        """Take away what is not wanted, or not so."""
        kept = self._kept[vhost.name] = Kept(
            vhost, self._wanted.exchanges.get(vhost.name, {}), self._wanted.queues.get(vhost.name, {})
        )
        wanted = self._wanted.bindings.get(vhost.name, {})
        dropped = False
        for binding, packed in list(_bindings(vhost)):
            ends_stay = binding.source.name in kept.exchanges and kept.has(binding.target)
            if not is_shared(binding):
                if not ends_stay:
                    kept.private.append(binding)
                continue
            key = key_of(binding, packed)
            if ends_stay and key in wanted:
                kept.bindings.add(key)
                continue
            self._drop(binding)
            dropped = True
            # What leads to or from something that goes would go with it.
            self.made += ends_stay
        if dropped:
            vhost.topology_changed()
        for name in sorted(name for name, queue in vhost.queues.items() if not kept.has(queue)):
            vhost.delete_queue(name)
            self.made += 1
        for name in sorted(vhost.exchanges.keys() - kept.exchanges):
            vhost.delete_exchange(name)
            self.made += 1

    def _drop(self, binding: Binding) -> None:
        binding.source.unbind(binding.target, binding.routing_key, binding.arguments)
        self._broker.binding_count -= 1

    def _build(self, name: str) -> None:
        """Add what is missing in one virtual host."""
        kept = self._kept.get(name) or Kept(None, {}, {})
        for exchange in self._wanted.exchanges.get(name, {}).values():
            if exchange.name not in kept.exchanges:
                self._perform(exchange)
        for queue in self._wanted.queues.get(name, {}).values():
            if queue.name not in kept.queues:
                self._perform(queue)
        for binding in kept.private:
            if binding.source.name in self._wanted.exchanges.get(name, {}):
                self._bind_again(name, binding)
        for key, binding_change in self._wanted.bindings.get(name, {}).items():
            if key not in kept.bindings:
                self._bind(binding_change)

    def _bind_again(self, vhost: str, binding: Binding) -> None:
        """A private queue keeps its binding to an exchange that was made anew."""
        self._perform(_binding_change(self._broker.vhosts[vhost], key_of(binding, b""), binding))

    def _bind(self, change: Bind) -> None:
        vhost = self._broker.vhosts.get(change.vhost)
        queue = None if vhost is None or change.to_exchange else vhost.queues.get(change.destination)
        if queue is not None and queue.owner is not None:
            self._fail(change, f"a private queue '{change.destination}' is in the way")
        else:
            self._perform(change)

    def _perform(self, change: Change) -> None:
        try:
            perform(self._broker, change)
        except (AmqpError, ValueError) as error:
            self._fail(change, error.reply_text if isinstance(error, AmqpError) else str(error))
        else:
            self.made += 1

    def _fail(self, change: Change, reason: str) -> None:
        self._failed += 1
        if self._failed <= NOTES_MAX:
            what = {name: getattr(change, name) for name in ("vhost", "name", "source") if hasattr(change, name)}
            self._broker.note(
                "error", "a definition could not be made here", kind=type(change).__name__, text=reason, **what
            )
