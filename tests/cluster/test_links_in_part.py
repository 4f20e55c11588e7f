"""Brokers that are linked one way, or not yet, or no more: what the links of a cluster go through while they are made."""

from __future__ import annotations

from tests.cluster.joined import Joined
from tests.cluster.test_interest import subscribe


def test_a_message_for_a_secondary_that_is_not_linked_to_yet_harms_nobody() -> None:
    cluster = Joined("p1", secondaries=("s1", "s2", "s3"))
    inboxes = {name: cluster.client(name) for name in ("s2", "s3")}
    for client in inboxes.values():
        subscribe(client, "amq.fanout")
    # The link of s2 to p1 was there first: p1 has heard what it wants, and cannot tell it anything.
    del cluster["p1"].outboxes["s2"]
    cluster.broker("p1").topology_changed()
    cluster.client("s1").publish("", b"x", exchange="amq.fanout")
    assert inboxes["s3"].bodies() == [b"x"]
    cluster["p1"].link_up("s2", 131_072)
    cluster.client("s1").publish("", b"y", exchange="amq.fanout")
    assert [client.bodies() for client in inboxes.values()] == [[b"y"], [b"y"]]
