"""One AMQP server: its virtual hosts, users and connections, and the state that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from openclust.broker.amqp import committing, consuming, declaring
from openclust.broker.amqp.channel import SIZE_SAMPLE_EVERY, Channel
from openclust.broker.amqp.client_channel import ClientChannel
from openclust.broker.amqp.connection import Connection
from openclust.broker.backlog.backlog import Entry
from openclust.broker.cluster_port import ClusterPort, Done
from openclust.broker.counts.churn import Churn
from openclust.broker.counts.histogram import Histogram
from openclust.broker.counts.message_counts import ChannelCounts
from openclust.broker.delivery.direct_reply import ReplyQueue
from openclust.broker.journal.journal import ConfirmWaiter, Journal
from openclust.broker.model.access import Permission, TopicPermission, User
from openclust.broker.model.changes import Change
from openclust.broker.model.deadlines import Deadlines
from openclust.broker.model.effects import Effect, Note
from openclust.broker.model.limits import Limits
from openclust.broker.model.memory_accounts import MemoryAccounts
from openclust.broker.model.message import Message
from openclust.broker.model.policy import Policy, PolicyTable
from openclust.broker.parameters.limited_use import LimitedUse, Usage, told
from openclust.broker.parameters.parameters import (
    CLUSTER_NAME,
    LIMITS,
    USER_LIMIT_NAMES,
    VHOST_LIMITS,
    Parameter,
    ParameterTable,
    check_limit,
    with_limit,
)
from openclust.broker.queues.dead_letter import redirect_letters
from openclust.broker.queues.queue import Queue
from openclust.broker.queues.repeats import Repeats
from openclust.broker.server.standalone import Standalone
from openclust.broker.server.vhost import VirtualHost
from openclust.wire.errors import NOT_FOUND, PRECONDITION_FAILED, AmqpError, ChannelError
from openclust.wire.handshake import State
from openclust.wire.properties import Properties
from openclust.wire.sasl import MECHANISMS
from openclust.wire.table import Table, encode_table

if TYPE_CHECKING:
    from openclust.broker.amqp.trace import Tracer

_T = TypeVar("_T")

_NO_METADATA: Table = {}
_SHARED_PROPERTIES_MAX = 1_000
LETTERS_PER_TURN_MAX = 2_000
MESSAGE_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
"""Bounds of the histogram of message sizes in bytes: those of RabbitMQ."""


assert committing and consuming and declaring, "imported for the methods that they register"


class Broker:
    """Set `now_ms` before every call that may depend on the time. After any call: `settle`, perform `effects`, and
    flush the `dirty` connections.

    `random_name` must return names that nobody can guess.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        random_name: Callable[[], str],
        memory_high_bytes: int = 2**62,
        cluster_name: str = "openclust",
        name: str = "",
        mechanisms: tuple[str, ...] = MECHANISMS,
        guest_from_loopback_only: bool = True,
        journal: Journal | None = None,
    ) -> None:
        self.limits = limits
        # What clients are told, if no global parameter says otherwise.
        self._configured_cluster_name = cluster_name
        self.cluster_name = cluster_name
        self.name = name
        self.mechanisms = mechanisms
        self.guest_from_loopback_only = guest_from_loopback_only
        self.now_ms = 0
        # How far the wall clock is ahead of `now_ms`.
        self.wall_offset_ms = 0
        self.memory_accounts = MemoryAccounts(memory_high_bytes, limits.unwritten_bytes_max)
        self.journal = journal or Journal()
        # None if nothing is traced: the hot path only looks at that.
        self.tracer: Tracer | None = None
        self.deadlines = Deadlines()
        self.policies = PolicyTable()
        self.parameters = ParameterTable()
        self.usage = Usage()
        self.cluster: ClusterPort = Standalone(self)
        self.vhosts: dict[str, VirtualHost] = {}
        self.users: dict[str, User] = {}
        # Whether changes of the cluster say who the users are. Before that, it is the users file of each broker.
        self.are_users_settled = False
        # Goes up with every change of users and their permissions.
        self.users_version = 0
        self.connections: dict[Connection, None] = {}
        self.replies: dict[str, ReplyQueue] = {}
        self.properties: dict[bytes, Properties] = {}
        # Property flags and properties of content headers that were checked and are well-formed.
        self.sound: set[bytes] = set()
        self.queue_count = 0
        self.binding_count = 0
        # What remains to be done at the end of a turn, in that order.
        self.dead_letters: list[tuple[Queue, Message, str, Entry | None]] = []
        self.cancelled: list[tuple[Channel, str]] = []
        self.confirming: list[ConfirmWaiter] = []
        self.closing: list[Connection] = []
        self.effects: list[Effect] = []
        # Log lines that repeat.
        self.repeats = Repeats()
        self.dirty: list[Connection] = []
        self.turn_bytes = 0
        # What passed on channels that are closed by now.
        self.closed_counts = ChannelCounts()
        # And how many of these messages were published on channels with confirms.
        self.closed_confirming = 0
        self.message_sizes = Histogram(MESSAGE_SIZES)
        self._size_phase = 0
        self.churn = Churn()
        # How many messages became dead letters, by the reason.
        self.dead_lettered: dict[str, int] = {}
        self.turn_waiters: list[Connection] = []
        self._random_name = random_name
        self._open_count = 0
        # Those among the open ones that act for users of the management API.
        self.internal_count = 0
        self._shared_properties: dict[bytes, Table] = {}
        # The virtual host of the links of other brokers: it cannot be deleted.
        self.peer_vhost = VirtualHost(self, "")
        self.put_vhost("/")

    # -- turns

    def settle(self) -> None:
        """End a turn: send dead letters and confirms. Then `effects` and the outboxes are complete.

        If `dead_letters` are left, another turn must follow.
        """
        if self.cancelled:
            cancelled, self.cancelled = self.cancelled, []
            for channel, tag in cancelled:
                channel.tell_cancelled(tag)
        # Queues that overflow into each other multiply a message: so the number of dead letters in a turn has a bound.
        left = LETTERS_PER_TURN_MAX
        while self.dead_letters and left:
            count = min(left, len(self.dead_letters))
            redirect_letters(self, count)
            left -= count
        self.confirming += self.journal.take_waiters()
        if self.confirming:
            waiters, self.confirming = self.confirming, []
            for waiter in waiters:
                waiter.send_confirms()
        if self.memory_accounts.alarm_changed():
            self._tell_alarm()

    def turn_done(self) -> None:
        """All outboxes of this turn are written: connections that waited for that go on."""
        self.turn_bytes = 0
        waiters, self.turn_waiters = self.turn_waiters, []
        for connection in waiters:
            if connection.hold == "turn":
                connection.release()

    def set_clock(self, now_ms: int, wall_clock_ms: int) -> None:
        """Set both clocks, which show the same moment."""
        self.now_ms = now_ms
        self.wall_offset_ms = wall_clock_ms - now_ms

    @property
    def wall_clock_s(self) -> int:
        return (self.now_ms + self.wall_offset_ms) // 1_000

    def tick(self, now_ms: int) -> None:
        """Time has passed: expire messages and queues, check timeouts."""
        self.now_ms = now_ms
        self.deadlines.run(now_ms)

    def _tell_alarm(self) -> None:
        accounts = self.memory_accounts
        alarm = accounts.alarm
        if accounts.alarm_cause == "disk":
            text = f"publishers wait: {accounts.reason}" if alarm else "the disk has caught up: publishers go on"
            self.note("warning", text, unwritten_bytes=accounts.unwritten_bytes)
        elif accounts.alarm_cause == "log":
            text = (
                f"publishers wait: {accounts.reason}" if alarm else "other primaries have caught up: publishers go on"
            )
            self.note("warning", text, uncommitted_bytes=accounts.uncommitted_bytes)
        else:
            text = "memory high watermark passed: publishers wait" if alarm else "memory is low again: publishers go on"
            self.note("warning", text, held_bytes=accounts.held_bytes, outbox_bytes=accounts.outbox_bytes)
        for connection in list(self.connections):
            if alarm:
                if connection.published:
                    connection.tell_blocked(True, accounts.reason)
                continue
            connection.tell_blocked(False)
            if connection.hold == "memory":
                connection.release()

    def note(
        self,
        level: Literal["debug", "info", "warning", "error"],
        event: str,
        connection: Connection | None = None,
        **fields: Any,
    ) -> None:
        self.effects.append(Note(level, event, connection, fields))

    def note_repeated(
        self, level: Literal["info", "warning", "error"], event: str, connection: Connection, reason: str
    ) -> None:
        """Log an event that a peer may repeat for ever: at once, then more and more seldom, with its count."""
        count = self.repeats.again(f"{connection.peer.host} {event}: {reason}", self.now_ms)
        if count is not None:
            self.note(level, f"{event}: {reason}{count}", connection)

    # -- names

    def name_queue(self) -> str:
        return f"amq.gen-{self._random_name()}"

    def name_consumer(self) -> str:
        return f"amq.ctag-{self._random_name()}"

    def unguessable(self) -> str:
        """A name that nobody can guess: for a reply address, or a nonce."""
        return self._random_name()

    # -- connections

    def new_channel(self, connection: Connection, number: int) -> Channel:
        """A new channel for a client's connection, which keeps it."""
        if connection.peer.is_application:
            self.churn.channel_created += 1
        return ClientChannel(connection, number)

    def next_size_sample(self) -> int:
        """Which message of the next channel has its size counted first: all places come up equally often."""
        self._size_phase = self._size_phase % SIZE_SAMPLE_EVERY + 1
        return self._size_phase

    def logged_in(self, connection: Connection) -> None:
        self._open_count += 1
        if connection.peer.is_internal:
            self.internal_count += 1
        if connection.peer.is_application:
            self.churn.connection_created += 1
            self.usage.connection_opened(connection.vhost.name, connection.user.name)
        self.note("debug", "connection opened", connection)
        if self.memory_accounts.alarm:
            connection.was_told_blocked = False

    @property
    def published(self) -> int:
        """How many messages clients have published."""
        channels = (channel for connection in self.connections for channel in connection.channels.values())
        return self.closed_counts.publish + sum(channel.published for channel in channels)

    @property
    def delivered(self) -> int:
        """How many messages were delivered on channels that are closed by now."""
        return self.closed_counts.deliver_get

    def open_count(self) -> int:
        """How many connections are open."""
        return self._open_count

    def share_properties(self, properties: Table) -> Table:
        """Equal properties as one object: thousands of clients have the same ones."""
        key = encode_table(properties)
        known = self._shared_properties.get(key)
        if known is None:
            if len(self._shared_properties) >= _SHARED_PROPERTIES_MAX:
                self._shared_properties.clear()
            self._shared_properties[key] = known = properties
        return known

    def connection_lost(self, connection: Connection) -> None:
        """A connection's transport is gone."""
        connection.lost()
        if connection.was_open:
            self._open_count -= 1
            if connection.peer.is_internal:
                self.internal_count -= 1
            if connection.peer.is_application:
                self.churn.connection_closed += 1
                self.usage.connection_closed(connection.vhost.name, connection.user.name)

    def close_all(self, code: int, text: str) -> None:
        """Close all connections."""
        for connection in list(self.connections):
            if connection.state is State.OPEN:
                connection.close(code, text)
            elif connection.state is not State.CLOSING:
                connection.end()

    # -- definitions

    def define(self, change: Change, done: Done | None = None) -> None:
        """Make a change on all brokers of the cluster. Without `done`, a refusal is only logged."""
        self.cluster.define(change, done or self._log_refusal)

    def _log_refusal(self, result: Any) -> None:
        if isinstance(result, AmqpError):
            self.note("warning", "a change was refused", text=result.reply_text)

    def vhost(self, name: str) -> VirtualHost:
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise ChannelError(NOT_FOUND, f"no vhost '{name}'")
        return vhost

    def put_vhost(self, name: str, metadata: Table = _NO_METADATA) -> VirtualHost:
        """The virtual host, made if there is none; `metadata`, if there is any, replaces what is told of it."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            vhost = self.vhosts[name] = VirtualHost(self, name)
            for exchange in vhost.exchanges.values():
                self.cluster.exchange_made(vhost, exchange)
        if metadata:
            vhost.metadata = metadata
        return vhost

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with its queues and messages, and close its connections."""
        vhost = self.vhost(name)
        for connection in list(self.connections):
            if getattr(connection, "vhost", None) is vhost and connection.state is State.OPEN:
                connection.close(320, f"CONNECTION_FORCED - vhost '{name}' is deleted")
        for queue in list(vhost.queues):
            vhost.delete_queue(queue)
        self.binding_count -= sum(len(each.bindings) for each in vhost.exchanges.values())
        del self.vhosts[name]
        self.policies.delete_vhost(name)
        self.parameters.delete_vhost(name)
        for user in self.users.values():
            user.permissions.pop(name, None)
            user.topic_permissions.pop(name, None)
        self.users_version += 1

    def put_user(self, user: User) -> None:
        """Add or replace a user, and forget all cached routes. `user` itself is copied."""
        self.users[user.name] = user.copy()
        self._permissions_changed()

    def delete_user(self, name: str) -> None:
        if self.users.pop(name, None) is None:
            raise ChannelError(NOT_FOUND, f"no user '{name}'")
        self._permissions_changed()

    def put_permission(self, user: str, vhost: str, permission: Permission) -> None:
        if user not in self.users:
            raise ChannelError(NOT_FOUND, f"no user '{user}'")
        self.users[user].permissions[self.vhost(vhost).name] = permission
        self._permissions_changed()

    def delete_permission(self, user: str, vhost: str) -> None:
        if user not in self.users:
            raise ChannelError(NOT_FOUND, f"no user '{user}'")
        if self.users[user].permissions.pop(vhost, None) is None:
            raise ChannelError(NOT_FOUND, f"user '{user}' has no permissions in vhost '{vhost}'")
        self._permissions_changed()

    def put_topic_permission(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
        there = self._user(user).topic_permissions
        there.setdefault(self.vhost(vhost).name, {})[exchange] = permission
        self._permissions_changed()

    def delete_topic_permissions(self, user: str, vhost: str) -> None:
        if self._user(user).topic_permissions.pop(vhost, None) is None:
            raise ChannelError(NOT_FOUND, f"user '{user}' has no topic permissions in vhost '{vhost}'")
        self._permissions_changed()

    def put_user_limit(self, user: str, name: str, value: int | None) -> None:
        """Set a limit of a user, or take it away."""
        limits = self._user(user).limits
        if value is None:
            limits.pop(name, None)
        else:
            _demand(lambda: check_limit(name, value, USER_LIMIT_NAMES))
            limits[name] = value
        self.users_version += 1

    def _user(self, name: str) -> User:
        if name not in self.users:
            raise ChannelError(NOT_FOUND, f"no user '{name}'")
        return self.users[name]

    def replace_users(self, users: Iterable[User]) -> None:
        """These are all users from now on. Virtual hosts that their permissions name are made."""
        self.users = {user.name: user.copy() for user in users}
        for user in self.users.values():
            for vhost in sorted(user.permissions):
                self.put_vhost(vhost)
        self._permissions_changed()

    def keep_only(self, users: Iterable[str], vhosts: Iterable[str]) -> None:
        """Delete all users and virtual hosts but these."""
        for vhost in sorted(self.vhosts.keys() - set(vhosts)):
            self.delete_vhost(vhost)
        kept = set(users)
        self.users = {name: user for name, user in self.users.items() if name in kept}
        self.are_users_settled = True
        self._permissions_changed()

    def _permissions_changed(self) -> None:
        self.users_version += 1
        for connection in list(self.connections):
            before: User | None = getattr(connection, "user", None)
            if before is None or connection.peer.is_peer:
                continue
            user = self.users.get(before.name)
            # A deleted user has no permissions.
            connection.user = user or User(name=before.name)
            if user is None and connection.state is State.OPEN:
                connection.close(320, f"CONNECTION_FORCED - user '{before.name}' is deleted")
        self.topology_changed()

    def take_charge(self) -> None:
        """This broker is root: its shared queues are active from now on, and `x-expires` begins anew for each."""
        self.journal.take_charge()
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if queue.owner is None:
                    queue.take_charge()
        self.topology_changed()

    def topology_changed(self) -> None:
        """Bindings or queues have changed: forget all cached routes."""
        for vhost in self.vhosts.values():
            vhost.topology_changed()

    def put_policy(self, policy: Policy, *, operator: bool = False) -> None:
        vhost = self.vhost(policy.vhost)
        try:
            self.policies.set(policy, operator=operator)
        except ValueError as error:
            raise ChannelError(PRECONDITION_FAILED, str(error)) from error
        vhost.follow_policies()

    # -- parameters and limits

    def put_parameter(self, vhost: str, component: str, name: str, value: str) -> None:
        """`value` is JSON."""
        parameter = Parameter(self.vhost(vhost).name, component, name, value)
        _demand(lambda: self.parameters.set(parameter))

    def delete_parameter(self, vhost: str, component: str, name: str) -> None:
        if not self.parameters.delete(vhost, component, name):
            raise ChannelError(NOT_FOUND, f"no parameter '{name}' of component '{component}' in vhost '{vhost}'")

    def put_vhost_limit(self, vhost: str, name: str, value: int | None) -> None:
        """Set a limit of a virtual host, or take it away."""
        before = self.parameters.get(self.vhost(vhost).name, VHOST_LIMITS, LIMITS)
        after = with_limit(before, name, value)
        if after:
            self.put_parameter(vhost, VHOST_LIMITS, LIMITS, after)
        else:
            self.parameters.delete(vhost, VHOST_LIMITS, LIMITS)

    def put_global_parameter(self, name: str, value: str) -> None:
        """`value` is JSON."""
        decoded = _demand(lambda: msgspec.json.decode(value))
        if name == CLUSTER_NAME:
            if not isinstance(decoded, str) or not decoded:
                raise ChannelError(PRECONDITION_FAILED, "the name of the cluster is a text")
            self.cluster_name = decoded
        self.parameters.global_values[name] = value

    def delete_global_parameter(self, name: str) -> None:
        if self.parameters.global_values.pop(name, None) is None:
            raise ChannelError(NOT_FOUND, f"no global parameter '{name}'")
        if name == CLUSTER_NAME:
            self.cluster_name = self._configured_cluster_name

    def limited_use(self) -> LimitedUse:
        """How much is used here of what has a limit."""
        limited, usage = self.parameters.limits, self.usage
        users = [user.name for user in self.users.values() if user.limits]
        return LimitedUse(
            vhost_connections=told({name: usage.vhost_connections.get(name, 0) for name in limited}),
            private_queues=told({name: self.vhosts[name].private_count for name in limited if name in self.vhosts}),
            user_connections=told({name: usage.user_connections.get(name, 0) for name in users}),
            user_channels=told({name: usage.user_channels.get(name, 0) for name in users}),
        )

    def delete_policy(self, vhost: str, name: str, *, operator: bool = False) -> None:
        if not self.policies.delete(vhost, name, operator=operator):
            raise ChannelError(NOT_FOUND, f"no policy '{name}' in vhost '{vhost}'")
        self.vhost(vhost).follow_policies()


def _demand(check: Callable[[], _T]) -> _T:
    """What `check` returns; 406 where it raises ValueError."""
    try:
        return check()
    except ValueError as error:
        raise ChannelError(PRECONDITION_FAILED, str(error)) from error
