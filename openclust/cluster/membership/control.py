"""Control messages that come on `amq.cluster`, and the part that each is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from openclust.cluster.protocol.messages import (
    Answer,
    Append,
    Arrived,
    Ask,
    Cancel,
    Cancelled,
    ControlMessage,
    Enlist,
    Fetch,
    Founded,
    Goodbye,
    Held,
    Inquiry,
    InquiryReply,
    Interest,
    InterestDigest,
    InterestLost,
    Lane,
    Prefetch,
    Presence,
    Pressure,
    RosterTold,
    Settle,
    Settled,
    Snapshot,
    Taken,
    Welcome,
    decode,
)
from openclust.cluster.protocol.outbox import CONTROL_CHANNEL, HANDOVER_LANE
from openclust.cluster.protocol.peer_user import peer_name
from openclust.cluster.protocol.status import Status
from openclust.cluster.relay.relay_lane import RelayLane
from openclust.cluster.shared_queues.handover import HandoverLane
from openclust.wire.errors import ACCESS_REFUSED, ChannelError

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.cluster.inquiries.inquiries import Inquiries
    from openclust.cluster.membership.admission import Admission
    from openclust.cluster.membership.presences import Presences
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.relay.relay import Relay
    from openclust.cluster.roles.lasting import Lasting


class ControlRole(Protocol):
    """What peers ask of the role in force."""

    def asked(self, peer: str, ask: Ask) -> None: ...
    def enlisted(self, peer: str, message: Enlist) -> None: ...
    def held(self, peer: str, message: Held) -> None: ...


class ControlHost(Protocol):
    """Whoever goes by what peers say of themselves: the membership."""

    def peer_speaks(self, name: str) -> None: ...
    def status_heard(self, status: Status) -> None: ...
    def welcomed(self, message: Welcome) -> None: ...
    def left(self, name: str, reason: str) -> None: ...


class Control:
    """Takes each message to the part of the cluster layer that it is for."""

    def __init__(
        self,
        parts: Lasting,
        leadership: Leadership[ControlRole],
        relay: Relay,
        inquiries: Inquiries,
        admission: Admission,
        presences: Presences,
        host: ControlHost,
    ) -> None:
        self._parts = parts
        self._leadership = leadership
        self._relay = relay
        self._inquiries = inquiries
        self._admission = admission
        self._presences = presences
        self._host = host

    def heard(self, connection: Connection, body: bytes) -> None:
        """A control message has come from a peer; ChannelError where it cannot be understood."""
        try:
            message = decode(body)
        except msgspec.DecodeError as error:
            raise ChannelError(ACCESS_REFUSED, f"not a control message: {error}") from error
        peer = peer_name(connection)
        if self._admission.connections.get(peer) is not connection:
            # A newer link has taken its place.
            return
        self._admission.heard(peer)
        self._host.peer_speaks(peer)
        if isinstance(message, Lane):
            self._open_lane(connection, peer, message)
        else:
            self._dispatch(peer, message)

    def _open_lane(self, connection: Connection, peer: str, lane: Lane) -> None:
        if lane.number <= CONTROL_CHANNEL:
            raise ChannelError(ACCESS_REFUSED, f"channel {lane.number} is no lane")
        if lane.source:
            connection.channels[lane.number] = self._parts.remote_consumers.lane(connection, lane)
        else:
            kind = HandoverLane if lane.queue else RelayLane
            connection.channels[lane.number] = kind(connection, self._relay, peer, lane)

    def _dispatch(self, peer: str, message: ControlMessage) -> None:
        if isinstance(message, Status):
            if message.name != peer:
                raise ChannelError(ACCESS_REFUSED, f"{peer} speaks for {message.name}")
            self._host.status_heard(message)
        elif isinstance(message, Settle | Taken | Prefetch | Cancel | Cancelled):
            self._on_consumer(peer, message)
        elif isinstance(message, Enlist | Append | Snapshot | Arrived | Held | Fetch):
            self._on_log(peer, message)
        elif isinstance(message, Interest | InterestDigest | InterestLost):
            self._on_interest(peer, message)
        else:
            self._on_other(peer, message)

    def _on_log(self, peer: str, message: Enlist | Append | Snapshot | Arrived | Held | Fetch) -> None:
        replica = self._parts.replica
        match message:
            case Enlist():
                self._leadership.role.enlisted(peer, message)
            case Append():
                replica.append(peer, message)
            case Snapshot():
                replica.snapshot(peer, message)
            case Arrived():
                replica.arrived(peer, message)
            case Held():
                self._leadership.role.held(peer, message)
            case Fetch():
                replica.fetch(peer, message)

    def _on_interest(self, peer: str, message: Interest | InterestDigest | InterestLost) -> None:
        meta_bindings = self._parts.meta_bindings
        match message:
            case Interest():
                meta_bindings.heard(peer, message)
            case InterestDigest():
                meta_bindings.checked(peer, message)
            case InterestLost():
                meta_bindings.tell_all(peer, of_others=message.of_others)

    def _on_consumer(self, peer: str, message: Settle | Taken | Prefetch | Cancel | Cancelled) -> None:
        parts = self._parts
        match message:
            case Settle():
                parts.consumer_proxies.settle(peer, message)
            case Taken():
                parts.consumer_proxies.taken(peer, message)
            case Prefetch():
                parts.consumer_proxies.prefetch(peer, message)
            case Cancel():
                parts.consumer_proxies.cancel(peer, message)
            case Cancelled():
                parts.remote_consumers.cancelled(peer, message)

    def _on_other(self, peer: str, message: ControlMessage) -> None:
        parts = self._parts
        match message:
            case Ask():
                self._leadership.role.asked(peer, message)
            case Answer():
                parts.root_requests.answered(peer, message)
            case Settled():
                if message.lane == HANDOVER_LANE:
                    parts.handover.settled(message)
                else:
                    parts.forwarding.settled(peer, message)
            case Pressure():
                (parts.links.pressed.add if message.is_high else parts.links.pressed.discard)(peer)
            case Welcome():
                self._host.welcomed(message)
            case Goodbye():
                self._host.left(peer, message.reason)
            case Presence():
                self._presences.heard(peer, message)
            case Inquiry():
                self._inquiries.heard(message)
            case InquiryReply():
                self._inquiries.replied(message)
            case Founded():
                parts.cluster_uuid.told(peer, message)
            case RosterTold():
                self._presences.told(peer, message)
            case _:
                raise AssertionError(f"{type(message).__name__} has a place of its own")
