"""Logins: what an edit of the users file means for a cluster, and what the broker itself writes into that file."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from openclust.broker.cluster_port import Done
from openclust.broker.model.access import Permission, User
from openclust.broker.model.changes import DeleteUser, PutUser, PutVhost
from openclust.broker.model.effects import Note
from openclust.broker.server.broker import Broker
from openclust.broker.server.standalone import Standalone
from openclust.shell.users.logins import CALM_MS, RETRY_MS, TOLD_EVERY_MS, Logins, changes_between, difference
from openclust.shell.users.saved_users import save_changed_users
from openclust.shell.users.users_file import load_users, save_users
from openclust.wire.errors import RESOURCE_ERROR, ChannelError
from tests.support.client import new_broker


def users(*all_: User) -> dict[str, User]:
    return {user.name: user for user in all_}


ALICE = User(name="alice", permissions={"/": Permission(".*", ".*", ".*")})
BOB = User(name="bob", password_hash="b")


def test_only_what_was_edited_is_asked_for() -> None:
    other_bob = User(name="bob", password_hash="c")
    assert changes_between(users(ALICE, BOB), users(ALICE, other_bob)) == [PutUser(user=other_bob)]


def test_a_user_comes_with_the_virtual_hosts_that_it_may_enter() -> None:
    assert changes_between({}, users(ALICE)) == [PutVhost(vhost="/"), PutUser(user=ALICE)]


def test_who_is_taken_out_of_the_file_is_deleted() -> None:
    assert changes_between(users(ALICE, BOB), users(ALICE)) == [DeleteUser(name="bob")]


def test_an_edit_that_changes_no_user_asks_for_nothing() -> None:
    assert changes_between(users(ALICE, BOB), users(BOB, ALICE)) == []


# -- what the broker itself writes


class Asked(Standalone):
    """A cluster that makes every change at once, and remembers which were asked for."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.changes: list[Any] = []

    def define(self, change: Any, done: Done) -> None:
        self.changes.append(change)
        super().define(change, done)


class Watched:
    """A broker of a cluster with a users file: `asks` is what the file makes it ask the cluster for."""

    def __init__(self, path: str) -> None:
        save_users(path, users(ALICE, User(name="bob")))
        self.path = path
        self.logins = Logins(path)
        self.broker = new_broker()
        self.broker.replace_users(self.logins.users.values())
        self.broker.are_users_settled = True
        self.broker.cluster = self.cluster = Asked(self.broker)

    def asks(self) -> list[Any]:
        self.cluster.changes.clear()
        self.logins.refresh(self.broker, 0, is_alone=False, at_once=True)
        return list(self.cluster.changes)

    def warnings(self) -> list[str]:
        return [each.text for each in self.broker.effects if isinstance(each, Note) and each.level == "warning"]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(str(tmp_path / "users.json"))


def test_what_the_broker_saves_is_no_edit_of_the_file(watched: Watched) -> None:
    watched.broker.delete_user("bob")
    watched.broker.put_permission("alice", "/", Permission(read="a"))
    asyncio.run(watched.logins.save(watched.broker, ["alice", "bob"]))
    assert load_users(watched.path) == users(User(name="alice", permissions={"/": Permission(read="a")}))
    assert watched.asks() == []


def test_an_edit_beside_what_the_broker_saves_still_counts(watched: Watched) -> None:
    watched.broker.delete_user("bob")
    other_alice = User(name="alice", type="console")
    save_changed_users(watched.path, {"alice": other_alice})
    asyncio.run(watched.logins.save(watched.broker, ["bob"]))
    assert watched.asks() == [PutUser(user=other_alice)]


def test_a_permission_given_in_the_cluster_is_not_taken_back_by_an_edit_of_another_user(watched: Watched) -> None:
    watched.broker.put_permission("alice", "/", Permission(read="a"))
    save_changed_users(watched.path, {"bob": None})
    assert watched.asks() == [DeleteUser(name="bob")]
    assert watched.broker.users["alice"].permissions == {"/": Permission(read="a")}


def test_the_file_is_not_read_while_the_broker_writes_it(watched: Watched) -> None:
    """Its users are older then than those of the broker."""
    save_changed_users(watched.path, {"alice": User(name="alice", type="console")})

    async def meanwhile() -> list[Any]:
        folder = os.open(os.path.dirname(watched.path), os.O_RDONLY)
        try:
            # The lock of another editor of the file: the broker waits for it.
            fcntl.flock(folder, fcntl.LOCK_EX)
            saving = asyncio.create_task(watched.logins.save(watched.broker, ["bob"]))
            await asyncio.sleep(0)
            asked = watched.asks()
        finally:
            os.close(folder)
        await saving
        return asked

    assert asyncio.run(meanwhile()) == []
    assert len(watched.asks()) == 1


def test_a_user_whom_another_brokers_file_has_deleted_already_is_no_reason_to_warn(watched: Watched) -> None:
    watched.broker.delete_user("bob")
    save_changed_users(watched.path, {"bob": None})
    assert watched.asks() == [DeleteUser(name="bob")]
    assert watched.warnings() == []


# -- in a cluster


class Restarted:
    """A broker of a cluster with a data directory, which is stopped and started with a users file that was edited."""

    def __init__(self, folder: Path, *file: User) -> None:
        self.folder = folder
        self.path = str(folder / "users.json")
        self.now_ms = 0
        save_users(self.path, users(*file))
        self.broker = new_broker()
        self.broker.replace_users(file)
        self.broker.are_users_settled = True
        self.broker.cluster = self.cluster = Asked(self.broker)
        self.start()

    def start(self) -> None:
        self.logins = Logins(self.path, str(self.folder))

    def edit(self, *file: User) -> None:
        save_users(self.path, users(*file))

    def asks(self, after_ms: int = 100, **state: bool) -> list[Any]:
        self.now_ms += after_ms
        self.cluster.changes.clear()
        self.logins.refresh(self.broker, self.now_ms, is_alone=False, at_once=True, **state)
        return list(self.cluster.changes)


@pytest.fixture
def restarted(tmp_path: Path) -> Restarted:
    restarted = Restarted(tmp_path, ALICE, User(name="bob"))
    assert restarted.asks() == []
    return restarted


def test_what_was_edited_while_the_broker_was_stopped_is_asked_for_once(restarted: Restarted) -> None:
    frank = User(name="frank")
    restarted.edit(ALICE, frank)
    restarted.start()
    assert restarted.asks(is_in_touch=False) == [], "there is no root"
    assert restarted.asks() == [PutUser(user=frank), DeleteUser(name="bob")]
    assert restarted.broker.users.keys() == {"alice", "frank"}
    restarted.start()
    assert restarted.asks() == []


def test_what_the_cluster_has_done_since_is_not_undone_by_a_file_that_is_as_it_was(restarted: Restarted) -> None:
    restarted.broker.delete_user("bob")
    restarted.start()
    assert restarted.asks() == []
    assert "bob" not in restarted.broker.users


def test_what_the_broker_has_saved_is_no_edit_after_a_restart(restarted: Restarted) -> None:
    restarted.broker.delete_user("bob")
    asyncio.run(restarted.logins.save(restarted.broker, ["bob"]))
    restarted.start()
    assert restarted.asks() == []


def test_before_the_log_says_who_the_users_are_the_file_does(restarted: Restarted) -> None:
    restarted.broker.are_users_settled = False
    restarted.edit(ALICE)
    assert restarted.asks() == []
    assert restarted.broker.users.keys() == {"alice"}


def test_what_is_refused_is_told_and_asked_for_again(restarted: Restarted, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(change: Any, done: Done) -> None:
        done(ChannelError(RESOURCE_ERROR, "no root"))

    define, restarted.cluster.define = restarted.cluster.define, refuse  # type: ignore[method-assign]
    restarted.edit(ALICE)
    restarted.asks()
    restarted.cluster.define = define  # type: ignore[method-assign]
    assert restarted.asks() == [] and "its edits are not applied yet: RESOURCE_ERROR - no root" in caplog.text
    assert restarted.asks(RETRY_MS) == [DeleteUser(name="bob")]


def test_a_broker_of_one_that_becomes_a_primary_asks_for_what_its_file_has_changed(tmp_path: Path) -> None:
    alone = Restarted(tmp_path, ALICE)
    alone.logins.log_says(users(ALICE, BOB))
    alone.logins.refresh(alone.broker, 0, is_alone=True)
    alone.start()
    assert alone.asks() == [DeleteUser(name="bob")]


def test_a_file_that_differs_from_the_clusters_users_is_named_once(
    restarted: Restarted, caplog: pytest.LogCaptureFixture
) -> None:
    restarted.broker.put_user(User(name="eve"))
    restarted.broker.put_permission("alice", "/", Permission(read="a"))
    restarted.broker.delete_user("bob")
    for _ in range(5):
        assert restarted.asks(CALM_MS) == []
    assert caplog.text.count("users.json is not what the cluster's users are") == 1
    assert "only in the file: bob; only in the cluster: eve; not the same: alice" in caplog.text
    restarted.broker.put_user(User(name="new"))
    restarted.asks(CALM_MS)
    restarted.asks(CALM_MS)
    assert "eve, new" not in caplog.text, "one line a minute is enough"
    restarted.asks(TOLD_EVERY_MS)
    assert "eve, new" in caplog.text


def test_of_many_users_that_differ_some_are_named() -> None:
    many = users(*(User(name=f"u{number}") for number in range(9)))
    assert difference(many, {}) == "only in the file: u0, u1, u2, u3, u4 and 4 more"
    assert difference(many, many) == ""
