"""The cluster's own name: when brokers go by it, and that no two parts of a cluster come to go by two."""

from __future__ import annotations

from openclust.cluster.protocol.hello import difference
from openclust.cluster.protocol.messages import Append, Founded, Snapshot
from tests.support.cluster.joined import Joined


def names(cluster: Joined) -> set[str]:
    return {cluster[each].hello.uuid for each in cluster.members}


def test_all_go_by_the_name_that_the_first_root_made_up() -> None:
    cluster = Joined("p1", "p2", "p3", secondaries=("s1",))
    assert len(names(cluster)) == 1 and "" not in names(cluster)


def test_a_single_primary_goes_by_a_name_at_once() -> None:
    assert Joined("p1")["p1"].hello.uuid


def test_a_newcomer_goes_by_the_name_of_whom_it_meets() -> None:
    cluster = Joined("p1", "p2", "p3")
    uuid = cluster["p1"].hello.uuid
    cluster.kill("p3")
    cluster.start("p3")
    assert cluster["p3"].hello.uuid == uuid


def test_a_name_that_only_its_maker_holds_keeps_nobody_apart() -> None:
    cluster = Joined("p1", "p2", "p3", wait_for_root=False)
    for name in ("p2", "p3"):
        cluster.drop(Append, Snapshot, to=name)
    assert cluster.await_root() == "p1"
    assert cluster["p1"].cluster_uuid.uuid and names(cluster) == {""}
    cluster.cut("p1", "p2")
    cluster.cut("p1", "p3")
    for name in ("p2", "p3"):
        cluster.drop(to=name)
    cluster.tick(1_000)
    assert cluster.root == "p2" and cluster["p2"].hello.uuid != cluster["p1"].cluster_uuid.uuid
    assert difference(cluster["p1"].hello, cluster["p2"].hello) is None
    cluster.mend("p1", "p2")
    cluster.mend("p1", "p3")
    assert cluster.await_root() == "p2"
    assert names(cluster) == {cluster["p2"].cluster_uuid.uuid}


def test_only_the_root_may_tell_the_name() -> None:
    cluster = Joined("p1", "p2", "p3")
    uuid = cluster["p2"].hello.uuid
    cluster["p3"].links.send("p2", Founded(uuid="another"))
    cluster.settle()
    assert cluster["p2"].hello.uuid == uuid
