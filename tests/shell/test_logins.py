"""Logins: what an edit of the users file means for a cluster."""

from __future__ import annotations

from openclust.broker.access import Permission, User
from openclust.broker.changes import DeleteUser, PutUser, PutVhost
from openclust.shell.logins import changes_between


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
