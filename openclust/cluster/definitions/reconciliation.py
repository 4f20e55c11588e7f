"""Changes the definitions of a broker into those of a target state, in short steps."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from openclust.broker.model.changes import Change, DeclareExchange, PutPolicy, PutUser
from openclust.broker.server.change_performer import perform
from openclust.cluster.definitions.name_collisions import NameCollisions
from openclust.cluster.definitions.state import binding_change
from openclust.cluster.definitions.target_state import TargetState, UnchangedDefinitions, is_shared, key_of, same_policy
from openclust.wire.errors import AmqpError

if TYPE_CHECKING:
    from openclust.broker.routing.exchange import Binding
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost

NOTES_MAX = 10
"""How many failures of one reconciliation are noted one by one; the rest is only counted."""


class Reconciliation:
    """Take its `steps`, however many a turn: applications go on meanwhile, and what is private may come and go.

    What is as wanted keeps its messages and consumers; private queues keep theirs, unless their virtual host goes.
    What cannot be made is noted as an error, and nothing is raised. All that must go goes before anything comes. A
    binding goes before what it leads to, and without telling its source: so no automatic deletion takes what is wanted.
    """

    def __init__(self, broker: Broker, wanted: TargetState, hidden: NameCollisions) -> None:
        self.made = 0
        self._broker = broker
        self._wanted = wanted
        self._hidden = hidden
        self._failed = 0
        self._kept: dict[str, UnchangedDefinitions] = {}

    def steps(self) -> Iterator[None]:
        wanted = self._wanted
        self._hidden.clear()
        yield from wanted.steps()
        for change, reason in wanted.unfit:
            self._fail(change, reason)
        yield from self._vhosts()
        yield from self._users()
        for name in sorted(self._broker.vhosts):
            yield from self._clear(self._broker.vhosts[name])
        self._policies()
        self._parameters()
        for name in sorted(wanted.exchanges.keys() | wanted.queues.keys() | wanted.bindings.keys()):
            yield from self._build(name)
        if self._failed > NOTES_MAX:
            self._broker.note("error", "more definitions could not be made here", count=self._failed - NOTES_MAX)

    def _vhosts(self) -> Iterator[None]:
        for name in sorted(self._broker.vhosts.keys() - self._wanted.vhosts.keys()):
            vhost = self._broker.vhosts[name]
            yield from self._drop_all(vhost, [each for each in _bindings(vhost) if is_shared(each)])
            for queue in list(vhost.queues.values()):
                if queue.owner is None:
                    yield
                    vhost.delete_queue(queue.name)
            self._broker.delete_vhost(name)
            self.made += 1
        for name, change in self._wanted.vhosts.items():
            if name not in self._broker.vhosts:
                yield
                self._perform(change)
            elif self._broker.vhosts[name].metadata != change.metadata:
                self._broker.vhosts[name].metadata = change.metadata
                self.made += 1

    def _users(self) -> Iterator[None]:
        if self._broker.are_users_settled is not self._wanted.are_users_settled:
            self._broker.are_users_settled = self._wanted.are_users_settled
            self.made += 1
        for name in sorted(self._broker.users.keys() - self._wanted.users.keys()):
            yield
            self._broker.delete_user(name)
            self.made += 1
        for name, change in self._wanted.users.items():
            yield
            if self._broker.users.get(name) != change.user:
                self._perform(PutUser(user=change.user))

    def _policies(self) -> None:
        """Change all policies before any queue follows them: so no queue is without its limits meanwhile."""
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

    def _parameters(self) -> None:
        parameters, wanted = self._broker.parameters, self._wanted
        there = {each[:3]: each.value for each in parameters.list()}
        for vhost, component, name in there.keys() - wanted.parameters.keys():
            parameters.delete(vhost, component, name)
            self.made += 1
        for key, change in wanted.parameters.items():
            if there.get(key) != change.value:
                self._perform(change)
        for name in parameters.global_values.keys() - wanted.global_parameters.keys():
            self._broker.delete_global_parameter(name)
            self.made += 1
        for name, each in wanted.global_parameters.items():
            if parameters.global_values.get(name) != each.value:
                self._perform(each)

    def _clear(self, vhost: VirtualHost) -> Iterator[None]:
        """Delete definitions that the target state lacks, or has otherwise."""
        exchanges = self._wanted.exchanges.get(vhost.name, {})
        kept = self._kept[vhost.name] = UnchangedDefinitions()
        yield from kept.steps(vhost, exchanges, self._wanted.queues.get(vhost.name, {}))
        yield from self._drop_all(vhost, (yield from self._unwanted_bindings(vhost, kept)))
        for queue in list(vhost.queues.values()):
            yield
            if not kept.has(queue):
                vhost.delete_queue(queue.name)
                self.made += 1
        for name in sorted(vhost.exchanges.keys() - kept.exchanges):
            yield
            self._replace(vhost, name, exchanges.get(name))

    def _unwanted_bindings(
        self, vhost: VirtualHost, kept: UnchangedDefinitions
    ) -> Generator[None, None, list[Binding]]:
        wanted = self._wanted.bindings.get(vhost.name, {})
        unwanted = []
        for exchange in list(vhost.exchanges.values()):
            for (_, _, packed), binding in list(exchange.bindings.items()):
                yield
                if not is_shared(binding):
                    continue
                key = key_of(binding, packed)
                ends_stay = exchange.name in kept.exchanges and kept.has(binding.target)
                if ends_stay and key in wanted:
                    kept.bindings.add(key)
                    continue
                unwanted.append(binding)
                # What leads to or from something that goes would go with it.
                self.made += ends_stay
        return unwanted

    def _drop_all(self, vhost: VirtualHost, bindings: list[Binding]) -> Iterator[None]:
        for binding in bindings:
            yield
            if binding.source.unbind(binding.target, binding.routing_key, binding.arguments) is not None:
                self._broker.binding_count -= 1
                vhost.topology_changed()

    def _replace(self, vhost: VirtualHost, name: str, wanted: DeclareExchange | None) -> None:
        """An exchange goes; if it comes again, private queues keep their bindings to it."""
        private = list(vhost.exchanges[name].bindings.values())
        vhost.delete_exchange(name)
        self.made += 1
        if wanted is None:
            return
        self._perform(wanted)
        if name in vhost.exchanges:
            self._kept[vhost.name].exchanges.add(name)
            for binding in private:
                self._perform(binding_change(vhost, key_of(binding, b""), binding), is_private=True)

    def _build(self, name: str) -> Iterator[None]:
        """Add what is missing in one virtual host."""
        kept = self._kept.get(name) or UnchangedDefinitions()
        for exchange in self._wanted.exchanges.get(name, {}).values():
            if exchange.name not in kept.exchanges:
                yield
                self._perform(exchange)
        for queue in self._wanted.queues.get(name, {}).values():
            if queue.name not in kept.queues:
                yield
                self._perform(queue)
        for key, binding in self._wanted.bindings.get(name, {}).items():
            if key not in kept.bindings:
                yield
                self._perform(binding)

    def _perform(self, change: Change, *, is_private: bool = False) -> None:
        try:
            if is_private:
                perform(self._broker, change)
            else:
                self._hidden.follow(change)
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


def _bindings(vhost: VirtualHost) -> Iterator[Binding]:
    for exchange in vhost.exchanges.values():
        yield from exchange.bindings.values()
