"""What peers say to each other: who may, what makes sense, and to whom it goes."""

from __future__ import annotations

import msgspec
import pytest

from openclust.broker.amqp.connection import Connection
from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.messages import (
    ControlMessage,
    InterestDigest,
    Lane,
    Presence,
    Pressure,
    RosterTold,
    Welcome,
    decode,
    encode,
)
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from openclust.cluster.protocol.status import Seniority, Status
from openclust.cluster.relay.lanes import Reach
from openclust.cluster.relay.relay_lane import RelayLane
from openclust.wire.errors import ChannelError
from openclust.wire.text import decode_text, encode_text
from tests.support.client import Client
from tests.support.cluster.joined import Joined


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3", secondaries=("s1",))


def link(cluster: Joined, of: str, to: str) -> Connection:
    """The connection by which one broker speaks to another."""
    return cluster.members[to].wires[of].connection


def say(cluster: Joined, of: str, to: str, message: ControlMessage) -> None:
    cluster[to].control(link(cluster, of, to), encode(message))


def refused(membership: Membership, connection: Connection, body: bytes) -> ChannelError:
    with pytest.raises(ChannelError) as error:
        membership.control(connection, body)
    return error.value


def is_pressed_by_root(membership: Membership) -> bool:
    return membership.root in membership.links.pressed


# -- who may


def test_only_brokers_may_publish_to_amq_cluster(cluster: Joined) -> None:
    client = cluster.client("p1")
    client.publish("", encode(Pressure(True)), exchange="amq.cluster")
    closed = client.channel_error()
    assert closed.code == 403
    assert not cluster["p1"].broker.memory_accounts.alarm


def test_a_console_user_is_no_broker_either() -> None:
    cluster = Joined("p1")
    cluster.broker("p1").users["guest"].type = "console"
    client = cluster.client("p1")
    client.publish("", encode(Pressure(True)), exchange="amq.cluster")
    assert client.channel_error().code == 403


def test_no_queue_can_be_bound_to_amq_cluster(cluster: Joined) -> None:
    client: Client = cluster.client("p1")
    names = cluster.broker("p1").vhosts["/"].exchanges
    assert "amq.cluster" not in names
    assert client.queue(exclusive=True)


# -- what makes sense


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x80",
        msgspec.msgpack.encode({"type": "Nonsense"}),
        msgspec.msgpack.encode({"type": "Pressure"}),
        msgspec.msgpack.encode({"type": "Pressure", "is_high": "yes"}),
        encode(Pressure(True)) + b"\x00",
    ],
)
def test_what_is_no_control_message_is_refused_with_403(cluster: Joined, body: bytes) -> None:
    error = refused(cluster["p1"], link(cluster, "p2", "p1"), body)
    assert error.code == 403 and "not a control message" in error.text


def test_a_peer_that_speaks_for_another_is_refused(cluster: Joined) -> None:
    status = Status(number=1, seniority=Seniority(1, "p3"), phase="active")
    error = refused(cluster["p1"], link(cluster, "p2", "p1"), encode(status))
    assert (error.code, error.text) == (403, "p2 speaks for p3")


@pytest.mark.parametrize("number", [0, 1])
def test_the_channels_of_the_connection_and_of_control_are_no_lanes(cluster: Joined, number: int) -> None:
    connection = link(cluster, "p2", "p1")
    before = connection.channels.get(number)
    lane = Lane(number=number, vhost=b"/", flags=int(Reach.PRIVATE))
    error = refused(cluster["p1"], connection, encode(lane))
    assert error.code == 403 and f"channel {number} is no lane" in error.text
    assert connection.channels.get(number) is before


def test_a_lane_takes_the_place_of_the_one_with_its_number(cluster: Joined) -> None:
    connection = link(cluster, "p2", "p1")
    for run in (1, 2):
        say(cluster, "p2", "p1", Lane(number=9, vhost=b"/", flags=int(Reach.SHARED), run=run))
        lane = connection.channels[9]
        assert isinstance(lane, RelayLane) and lane.lane.run == run and lane.count == 0


def test_what_an_older_link_still_says_is_passed_over(cluster: Joined) -> None:
    older = link(cluster, "p2", "p1")
    cluster.redial("p2", "p1")
    cluster["p1"].control(older, encode(Presence(info=BrokerInfo(name="p2", client="old:1"))))
    info = cluster["p1"].presences.info("p2")
    assert info is not None and info.client != "old:1"


def test_a_message_says_its_kind_in_its_type(cluster: Joined) -> None:
    assert decode(encode(InterestDigest(count=1, digest=2))) == InterestDigest(count=1, digest=2)
    assert b"InterestDigest" in encode(InterestDigest(count=1, digest=2))


def test_names_of_any_bytes_survive_the_way() -> None:
    for name in ("plain", "späte", "\udcff\udc80"):
        assert decode_text(encode_text(name)) == name


# -- to whom it goes


def test_only_the_roots_shortness_of_memory_makes_publishers_wait(cluster: Joined) -> None:
    say(cluster, "p2", "p3", Pressure(True))
    assert not is_pressed_by_root(cluster["p3"])
    say(cluster, "p1", "p3", Pressure(True))
    assert is_pressed_by_root(cluster["p3"])
    say(cluster, "p1", "p3", Pressure(False))
    assert not is_pressed_by_root(cluster["p3"])


def test_a_broker_that_was_short_of_memory_before_it_became_root_is_known_to_be(cluster: Joined) -> None:
    say(cluster, "p2", "p3", Pressure(True))
    cluster.step_down("p1")
    assert cluster.await_root() == "p2"
    assert is_pressed_by_root(cluster["p3"])


def test_the_shortness_of_a_former_root_is_forgotten(cluster: Joined) -> None:
    say(cluster, "p1", "p3", Pressure(True))
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    assert not is_pressed_by_root(cluster["p3"])


def test_a_primary_is_welcomed_by_nobody(cluster: Joined) -> None:
    say(cluster, "p2", "p3", Welcome(primaries={"other": "elsewhere:1"}, heartbeat_ms=20))
    assert cluster["p3"].primaries == ("p1", "p2", "p3") and cluster["p3"].heartbeat_ms == 100


def test_a_secondary_learns_the_primaries_and_their_heartbeat(cluster: Joined) -> None:
    assert cluster["s1"].primaries == ("p1", "p2", "p3")
    say(cluster, "p2", "s1", Welcome(primaries={"p1": "a:1", "p2": "b:1", "p3": "c:1"}, heartbeat_ms=250))
    assert cluster["s1"].watch.heartbeat_ms == cluster["s1"].heartbeat_ms == 250
    assert cluster["s1"].links.peers["p3"] == "c:1" and cluster["s1"].links.peers_changed


def test_only_the_root_tells_who_is_there(cluster: Joined) -> None:
    before = cluster["p3"].roster
    say(cluster, "p2", "p3", RosterTold(roster=Roster(root="p2")))
    assert cluster["p3"].roster == before


def test_what_brokers_say_to_each_other_counts_as_no_publish(cluster: Joined) -> None:
    cluster.tick(1_000)
    assert [cluster.broker(name).published for name in cluster.members] == [0] * len(cluster.members)
