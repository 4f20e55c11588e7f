"""What is said on `amq.cluster`, to whom it goes here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.cluster.protocol.messages import (
    Answer,
    Append,
    Arrived,
    Ask,
    Cancel,
    Cancelled,
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
    Message,
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
    from openclust.cluster.membership.membership import Membership


class Control:
    """Takes each message to the part of the cluster layer that it is for."""

    def __init__(self, membership: Membership) -> None:
        self._cluster = membership

    def heard(self, connection: Connection, body: bytes) -> None:
        """A peer says something; ChannelError where it makes no sense."""
        try:
            message = decode(body)
        except msgspec.DecodeError as error:
            raise ChannelError(ACCESS_REFUSED, f"not a control message: {error}") from error
        peer = peer_name(connection)
        if self._cluster.admission.connections.get(peer) is not connection:
            # A newer link has taken its place.
            return
        self._cluster.admission.heard(peer)
        self._cluster.peer_speaks(peer)
        if isinstance(message, Lane):
            self._open_lane(connection, peer, message)
        else:
            self._dispatch(peer, message)

    def _open_lane(self, connection: Connection, peer: str, lane: Lane) -> None:
        if lane.number <= CONTROL_CHANNEL:
            raise ChannelError(ACCESS_REFUSED, f"channel {lane.number} is no lane")
        if lane.source:
            connection.channels[lane.number] = self._cluster.remote_consumers.lane(connection, lane)
        else:
            kind = HandoverLane if lane.queue else RelayLane
            connection.channels[lane.number] = kind(connection, self._cluster.relay, peer, lane)

    def end_reign(self) -> None:
        """As root no more: what others have under way to this one, and want to be told of, is for the next."""
        for connection in self._cluster.admission.connections.values():
            for channel in connection.channels.values():
                if isinstance(channel, RelayLane):
                    channel.end_reign()

    def _dispatch(self, peer: str, message: Message) -> None:
        if isinstance(message, Status):
            if message.name != peer:
                raise ChannelError(ACCESS_REFUSED, f"{peer} speaks for {message.name}")
            self._cluster.status_heard(message)
        elif isinstance(message, Settle | Taken | Prefetch | Cancel | Cancelled):
            self._on_consumer(peer, message)
        elif isinstance(message, Enlist | Append | Snapshot | Arrived | Held | Fetch):
            self._on_log(peer, message)
        elif isinstance(message, Interest | InterestDigest | InterestLost):
            self._on_interest(peer, message)
        else:
            self._on_other(peer, message)

    def _on_log(self, peer: str, message: Enlist | Append | Snapshot | Arrived | Held | Fetch) -> None:
        replica = self._cluster.replica
        match message:
            case Enlist():
                self._cluster.leadership.role.enlisted(peer, message)
            case Append():
                replica.append(peer, message)
            case Snapshot():
                replica.snapshot(peer, message)
            case Arrived():
                replica.arrived(peer, message)
            case Held():
                self._cluster.leadership.role.held(peer, message)
            case Fetch():
                replica.fetch(peer, message)

    def _on_interest(self, peer: str, message: Interest | InterestDigest | InterestLost) -> None:
        meta_bindings = self._cluster.meta_bindings
        match message:
            case Interest():
                meta_bindings.heard(peer, message)
            case InterestDigest():
                meta_bindings.checked(peer, message)
            case InterestLost():
                meta_bindings.tell_all(peer, of_others=message.of_others)

    def _on_consumer(self, peer: str, message: Settle | Taken | Prefetch | Cancel | Cancelled) -> None:
        cluster = self._cluster
        match message:
            case Settle():
                cluster.proxies.settle(peer, message)
            case Taken():
                cluster.proxies.taken(peer, message)
            case Prefetch():
                cluster.proxies.prefetch(peer, message)
            case Cancel():
                cluster.proxies.cancel(peer, message)
            case Cancelled():
                cluster.remote_consumers.cancelled(peer, message)

    def _on_other(self, peer: str, message: Message) -> None:
        cluster = self._cluster
        match message:
            case Ask():
                cluster.leadership.role.asked(peer, message)
            case Answer():
                cluster.root_requests.answered(peer, message)
            case Settled():
                if message.lane == HANDOVER_LANE:
                    cluster.handover.settled(message)
                else:
                    cluster.forwarding.settled(peer, message)
            case Pressure():
                (cluster.links.pressed.add if message.is_high else cluster.links.pressed.discard)(peer)
            case Welcome():
                cluster.welcomed(message)
            case Goodbye():
                cluster.left(peer, message.reason)
            case Presence():
                cluster.presences.heard(peer, message)
            case Inquiry():
                cluster.inquiries.heard(message)
            case InquiryReply():
                cluster.inquiries.replied(message)
            case Founded():
                cluster.cluster_uuid.told(peer, message)
            case RosterTold():
                cluster.presences.told(peer, message)
            case _:
                raise AssertionError(f"{type(message).__name__} has a place of its own")
