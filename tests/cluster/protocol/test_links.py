"""Links: which peers there are, and what is sent to each."""

from __future__ import annotations

from openclust.cluster.protocol.leadership import Leadership
from openclust.cluster.protocol.links import Links
from openclust.cluster.protocol.messages import Pressure
from openclust.cluster.protocol.status import Reign


def links_of(name: str = "p1", *primaries: str, root: str = "") -> Links:
    leadership: Leadership[object] = Leadership()
    if root:
        leadership.lead(Reign(1, root), is_root=root == name)
    return Links(
        name, primaries or ("p1", "p2"), leadership, heartbeat_ms=100, is_alone=False, outbox_bytes_max=1_000_000
    )


def test_a_peer_is_to_be_dialled_again_only_where_its_address_is_another() -> None:
    links = links_of()
    links.want_peer("p2", "there:1")
    assert links.peers_changed
    links.peers_changed = False
    links.want_peer("p2", "there:1")
    assert not links.peers_changed
    links.want_peer("p2", "elsewhere:1")
    assert links.peers == {"p2": "elsewhere:1"} and links.peers_changed
    links.peers_changed = False
    links.forget_peer("p2")
    assert links.peers == {} and links.peers_changed


def test_a_peer_that_is_no_defined_primary_is_a_secondary() -> None:
    links = links_of()
    links.want_peer("p2", "there:1")
    links.want_peer("s1", "there:2")
    assert [name for name in ("p2", "s1", "s2") if links.is_secondary(name)] == ["s1"]
    links.outbox("s1")
    assert links.secondaries_up() == []
    links.outbox("s1").open(4_096)
    assert links.secondaries_up() == ["s1"]


def test_nothing_is_sent_without_a_link() -> None:
    links = links_of()
    assert not links.send("p2", Pressure(True))
    outbox = links.outbox("p2")
    assert not links.send("p2", Pressure(True)) and links.dirty == []
    outbox.open(4_096)
    assert links.send("p2", Pressure(True)) and links.dirty == [outbox]


def test_the_way_to_the_root_is_open_when_there_are_links_in_both_directions() -> None:
    links = links_of(root="p2")
    assert links.root_outbox() is None
    outbox = links.outbox("p2")
    links.fresh.add("p2")
    outbox.open(4_096)
    assert links.root_outbox() is None, "the root has said nothing yet"
    links.fresh.discard("p2")
    assert links.root_outbox() is outbox
    outbox.close()
    assert links.root_outbox() is None


def test_a_root_has_no_way_to_the_root() -> None:
    links = links_of(root="p1")
    links.outbox("p2").open(4_096)
    assert links.root_outbox() is None


def test_the_root_passes_messages_on_or_else_the_first_primary_that_is_there() -> None:
    links = links_of("s1", "p1", "p2", "p3", root="p3")
    assert links.relaying_primary() == ""
    links.outbox("p2").open(4_096)
    assert links.relaying_primary() == "p2"
    links.outbox("p3").open(4_096)
    assert links.relaying_primary() == "p3"


def test_without_a_root_its_name_is_empty_and_the_epoch_is_none() -> None:
    leadership: Leadership[object] = Leadership()
    leadership.lead(Reign(3, "p2"), is_root=False)
    assert (leadership.root, leadership.epoch, leadership.is_root) == ("p2", 3, False)
    leadership.lead(None, is_root=False)
    assert (leadership.root, leadership.epoch, leadership.reign) == ("", 0, None)
