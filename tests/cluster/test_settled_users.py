"""Who the users of a cluster are is said by its log; before that has begun, by the users file of each broker."""

from __future__ import annotations

import pytest

from openclust.broker.model.access import User
from openclust.broker.model.changes import DeleteUser, PutUser
from openclust.cluster.election.events import StepDown
from openclust.cluster.log.log_writer import LogWriter
from tests.cluster.storage.test_recovery import Rows
from tests.support.client import EVERYTHING
from tests.support.cluster.joined import Joined

FILES = {"p1": ("anna", "eve"), "p2": ("anna", "paul"), "p3": (), "s1": ("sue",)}


def new_cluster() -> Joined:
    """Its brokers have begun with different users files, and none of them is root yet."""
    cluster = Joined("p1", "p2", "p3", secondaries=("s1",), wait_for_root=False, settled_users=False)
    for name, users in FILES.items():
        begin_with(cluster, name, *users)
    return cluster


def begin_with(cluster: Joined, name: str, *users: str) -> None:
    cluster.broker(name).replace_users([User(name=user, permissions={f"of {user}": EVERYTHING}) for user in users])


def users(cluster: Joined) -> dict[str, list[str]]:
    return {name: sorted(cluster.broker(name).users) for name in sorted(cluster.members)}


def vhosts(cluster: Joined) -> set[tuple[str, ...]]:
    return {tuple(sorted(cluster.broker(name).vhosts)) for name in cluster.members}


def test_all_brokers_have_the_users_of_the_first_root() -> None:
    cluster = new_cluster()
    assert cluster.await_root() == "p1"
    cluster.tick(200)
    assert users(cluster) == {name: ["anna", "eve"] for name in FILES}
    assert vhosts(cluster) == {("/", "of anna", "of eve")}, "and its virtual hosts"
    assert all(cluster.broker(name).are_users_settled for name in FILES)


def test_a_later_root_changes_nothing_about_them() -> None:
    cluster = new_cluster()
    cluster.await_root()
    cluster.tick(200)
    cluster.broker("p3").define(DeleteUser(name="eve"))
    cluster.tick(200)
    length = cluster["p2"].replica.position.sequence
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    cluster.tick(200)
    assert users(cluster) == {"p2": ["anna"], "p3": ["anna"], "s1": ["anna"]}
    assert cluster["p2"].replica.position.sequence == length + 1, "only the entry that opens the reign"


@pytest.mark.parametrize("kept_as", ["rows", "a checkpoint"])
def test_who_restarts_has_the_users_of_the_log_whatever_its_file_says(kept_as: str) -> None:
    cluster = new_cluster()
    kept = Rows(cluster, "p1")
    kept.definitions = []
    cluster.await_root()
    cluster.tick(200)
    if kept_as == "a checkpoint":
        kept = Rows(cluster, "p1")
    cluster.broker("p1").define(PutUser(user=User(name="frank")))
    cluster.tick(200)
    make = cluster.make

    def with_its_file(name: str, *, is_primary: bool) -> None:
        make(name, is_primary=is_primary)
        begin_with(cluster, name, "paul")

    cluster.make = with_its_file  # type: ignore[method-assign]
    cluster.kill("p2")
    cluster.kill("p3")
    kept.restart(cluster, "p1")
    assert users(cluster)["p1"] == ["anna", "eve", "frank"]
    assert sorted(cluster.broker("p1").vhosts) == ["/", "of anna", "of eve"]
    assert cluster.broker("p1").are_users_settled


def test_a_root_that_went_before_it_had_said_all_leaves_it_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = new_cluster()
    append = LogWriter.append_change
    left = [1]

    def append_and_resign(log: LogWriter, body: bytes) -> None:
        append(log, body)
        left[0] -= 1
        if not left[0]:
            cluster[cluster.root].tell(StepDown(cluster.now_ms, "told to"))

    monkeypatch.setattr(LogWriter, "append_change", append_and_resign)
    cluster.tick(1_500)
    cluster.await_root()
    cluster.tick(500)
    assert len({tuple(each) for each in users(cluster).values()}) == 1, users(cluster)
    assert all(cluster.broker(name).are_users_settled for name in FILES)
