"""Digests of the users that the cluster last took from a users file."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclust.broker.model.access import Permission, User
from openclust.shell.users.taken_users import TakenUsers, digest, digests

ANN = User(name="ann", password_hash="a")
USERS = {"ann": ANN}


def test_a_digest_differs_with_everything_about_a_user() -> None:
    others = [
        User(name="bob", password_hash="a"),
        User(name="ann", password_hash="b"),
        User(name="ann", password_hash="a", type="console"),
        User(name="ann", password_hash="a", tags=("administrator",)),
        User(name="ann", password_hash="a", permissions={"/": Permission(read="x")}),
    ]
    assert len({digest(each) for each in [ANN, *others]}) == 6
    assert digest(ANN) == digest(ANN.copy())


def test_at_first_all_users_of_the_file_count_as_taken(tmp_path: Path) -> None:
    assert TakenUsers(str(tmp_path), USERS).users == digests(USERS)


def test_digests_on_disk_outlive_an_edit_of_the_file(tmp_path: Path) -> None:
    TakenUsers(str(tmp_path), USERS).keep()
    edited = {"ann": User(name="ann", password_hash="b")}
    assert TakenUsers(str(tmp_path), edited).users == digests(USERS)


def test_without_a_data_directory_nothing_is_written() -> None:
    taken = TakenUsers(None, USERS)
    taken.save()
    assert taken.users == digests(USERS)


def test_digests_that_cannot_be_read_are_logged_and_all_users_count_as_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "users-taken.json").write_bytes(b"[")
    assert TakenUsers(str(tmp_path), USERS).users == digests(USERS)
    (line,) = caplog.messages
    assert "edits of the users file since the last run are not known" in line
