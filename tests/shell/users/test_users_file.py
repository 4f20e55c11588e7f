"""The users file: what it may hold, how it is replaced, and what a running broker makes of a change."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from openclust.broker.model.access import Permission, TopicPermission, User
from openclust.shell.users.passwords import matches
from openclust.shell.users.users_file import UsersFile, UsersFileError, editing, guest, load_users, save_users
from tests.support.paths import ROOT

EXAMPLE = ROOT / "conf" / "users.json"
RABBIT_HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "users.json")


def write(path: str, document: Any) -> None:
    Path(path).write_text(document if isinstance(document, str) else json.dumps(document))
    os.chmod(path, 0o600)


def problem_of(path: str, document: Any) -> str:
    write(path, document)
    with pytest.raises(UsersFileError) as caught:
        load_users(path)
    assert all(problem.startswith(path) for problem in caught.value.problems)
    return str(caught.value)


def test_users_come_back_as_they_were_saved(path: str) -> None:
    users = {
        "zoe": User(name="zoe", type="cluster"),
        "ann": User(
            name="ann",
            password_hash="rabbit_sha256$" + RABBIT_HASH,
            type="console",
            tags=("administrator", "b"),
            permissions={"/": Permission(".*", "^a", "^$"), "v": Permission()},
            topic_permissions={"/": {"amq.topic": TopicPermission("^a", ""), "e": TopicPermission()}},
            limits={"max-channels": 5, "max-connections": -1},
        ),
    }
    save_users(path, users)
    assert load_users(path) == users
    assert list(load_users(path)) == ["ann", "zoe"]


def test_a_file_without_topic_permissions_and_limits_is_one_that_earlier_versions_read(path: str) -> None:
    save_users(path, {"zoe": User(name="zoe")})
    document = json.loads(Path(path).read_text())
    assert document == {"users": [{"name": "zoe"}], "permissions": []}


def test_the_file_is_for_its_owner_only(path: str) -> None:
    old = os.umask(0)
    try:
        save_users(path, {})
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_nothing_is_left_behind_when_saving_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "users.json")
    save_users(path, {"ann": User(name="ann")})

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsersFileError, match=r"users\.json: cannot be written: No space left"):
        save_users(path, {})
    assert os.listdir(tmp_path) == ["users.json"]
    assert "ann" in load_users(path)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "users.json"
    link.symlink_to(tmp_path / "real" / "users.json")
    save_users(str(link), {"ann": User(name="ann")})
    assert link.is_symlink()
    assert "ann" in load_users(str(tmp_path / "real" / "users.json"))


def test_users_of_rabbitmq_are_taken_as_they_are(path: str) -> None:
    entry = {
        "name": "ann",
        "password_hash": RABBIT_HASH,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "administrator,monitoring",
        "limits": {},
    }
    write(path, {"users": [entry]})
    ann = load_users(path)["ann"]
    assert matches(ann.password_hash, b"test12")
    assert ann.tags == ("administrator", "monitoring")
    assert ann.type == "normal"
    assert not ann.may_enter("/")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ('{"users": [}', "line 1, column 12"),
        ("", "line 1, column 1"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `users`"),
        ('{"users": [{"name": 5}]}', "`$.users[0].name`"),
        ('{"users": [{"name": "a", "pasword_hash": ""}]}', "`pasword_hash`"),
        ('{"users": [], "queues": []}', "only users and permissions belong here"),
        ('{"users": [{"name": "a", "type": "root"}]}', "'root'"),
        ('{"users": [{"name": "a"}, {"name": "a"}]}', "user 'a': is there twice"),
        ('{"users": [{"name": ""}]}', "1 to 255 bytes"),
        ('{"users": [{"name": "a\\n"}]}', "no control characters"),
        ('{"users": [{"name": "a", "password_hash": "secret"}]}', "user 'a': password_hash: "),
        ('{"users": [{"name": "a", "limits": {"max-queues": 1}}]}', "unrecognised limit 'max-queues'"),
        ('{"users": [{"name": "a", "limits": [1]}]}', "`$.users[0].limits[0]`"),
        (
            '{"users": [], "topic_permissions": '
            '[{"user": "a", "vhost": "/", "exchange": "e", "write": "", "read": ""}]}',
            "topic permissions of 'a' on 'e': there is no such user in the file",
        ),
        (
            '{"users": [{"name": "a"}], '
            '"topic_permissions": [{"user": "a", "vhost": "/", "exchange": "e", "write": "(", "read": ""}]}',
            "the write pattern '(' is no regular expression",
        ),
        ("[" * 100_000, "Expected `object`"),
        ('{"users": ' + "[" * 100_000, "Expected `object`"),
    ],
)
def test_a_broken_file_says_what_and_where(path: str, document: str, said: str) -> None:
    assert said in problem_of(path, document)


def test_permissions_must_make_sense(path: str) -> None:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    permissions = [
        {"user": "nobody", "vhost": "/", **everything},
        {"user": "ann", "vhost": "/", **everything, "write": "ab("},
        {"user": "ann", "vhost": "/", **everything},
    ]
    text = problem_of(path, {"users": [{"name": "ann"}], "permissions": permissions})
    assert "permissions of 'nobody' on virtual host '/': there is no such user in the file" in text
    assert "the write pattern 'ab(' is no regular expression: missing ), unterminated subpattern at position 2" in text
    assert "are there twice" in text


def test_an_empty_pattern_grants_nothing(path: str) -> None:
    nothing = {"configure": "", "write": "", "read": ""}
    write(path, {"users": [{"name": "ann"}], "permissions": [{"user": "ann", "vhost": "/", **nothing}]})
    ann = load_users(path)["ann"]
    assert ann.may_enter("/")
    assert not any(ann.may(action, "/", "x") for action in ("configure", "write", "read"))


def test_a_file_that_is_not_there_says_how_to_make_one(path: str) -> None:
    with pytest.raises(UsersFileError, match="make one with: openclust users add NAME --file"):
        load_users(path)


def test_a_file_that_everybody_can_read_is_warned_of(path: str, caplog: pytest.LogCaptureFixture) -> None:
    write(path, {"users": []})
    load_users(path)
    assert not caplog.records
    os.chmod(path, 0o644)
    load_users(path)
    load_users(path)
    assert [record.getMessage().endswith("chmod 600 it") for record in caplog.records] == [True]


def test_the_example_is_right() -> None:
    users = load_users(str(EXAMPLE))
    assert users["web"].may("write", "/", "orders")
    assert not users["web"].may("read", "/", "orders")


def test_guest_may_do_everything_with_the_password_guest() -> None:
    user = guest()["guest"]
    assert matches(user.password_hash, b"guest")
    assert user.may("configure", "/", "anything")


def test_editing_saves_at_the_end_and_not_after_an_error(path: str) -> None:
    with editing(path, create=True) as users:
        users["ann"] = User(name="ann")
    with pytest.raises(ZeroDivisionError), editing(path) as users:
        del users["ann"]
        raise ZeroDivisionError
    assert list(load_users(path)) == ["ann"]


def test_two_editors_do_not_lose_each_others_work(path: str) -> None:
    save_users(path, {})

    def add(name: str) -> None:
        with editing(path) as users:
            users[name] = User(name=name)

    threads = [threading.Thread(target=add, args=(f"u{i:02}",)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load_users(path)) == 20


class TestUsersFile:
    """A running broker's view of the file."""

    def test_a_change_is_seen(self, path: str) -> None:
        save_users(path, {})
        watched = UsersFile(path)
        assert not watched.refresh(0)
        save_users(path, {"ann": User(name="ann")})
        assert watched.refresh(1_000)
        assert list(watched.users) == ["ann"]
        assert not watched.refresh(2_000)

    def test_it_looks_at_most_once_a_second(self, path: str) -> None:
        save_users(path, {})
        watched = UsersFile(path)
        watched.refresh(5_000)
        save_users(path, {"ann": User(name="ann")})
        assert not watched.refresh(5_999)
        assert watched.refresh(6_000)

    def test_a_broken_file_leaves_the_users_and_is_told_once(self, path: str, caplog: pytest.LogCaptureFixture) -> None:
        save_users(path, {"ann": User(name="ann")})
        watched = UsersFile(path)
        write(path, "{")
        assert not watched.refresh(0)
        assert not watched.refresh(1_000)
        assert list(watched.users) == ["ann"]
        assert len(caplog.records) == 1
        assert "the users stay as they were" in caplog.text
        save_users(path, {"bob": User(name="bob")})
        assert watched.refresh(2_000)
        assert list(watched.users) == ["bob"]

    def test_a_file_that_goes_away_leaves_the_users(self, path: str, caplog: pytest.LogCaptureFixture) -> None:
        save_users(path, {"ann": User(name="ann")})
        watched = UsersFile(path)
        os.unlink(path)
        assert not watched.refresh(0)
        assert not watched.refresh(1_000)
        assert list(watched.users) == ["ann"]
        assert len(caplog.records) == 1
