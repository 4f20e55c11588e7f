"""Sessions: found by their cookie, for a bounded time, until their user changes."""

from __future__ import annotations

from itertools import count

import pytest

from openclust.broker.model.access import Permission, User
from openclust.manage.calls import sessions as sessions_module
from openclust.manage.calls.sessions import SESSIONS_PER_USER_MAX, Sessions, is_token

LIFETIME_MS = 60_000


@pytest.fixture
def sessions() -> Sessions:
    numbers = count()
    return Sessions(lambda: f"secret {next(numbers)}", LIFETIME_MS)


def user(name: str = "alice", **fields: object) -> User:
    return User(name=name, password_hash="hash", **fields)  # type: ignore[arg-type]


def test_a_session_is_found_by_its_cookie_only(sessions: Sessions) -> None:
    cookie, session = sessions.begin(user(), 0)
    assert sessions.find(cookie, {"alice": user()}, 1) is session
    assert sessions.find(session.write_token, {"alice": user()}, 1) is None


def test_it_ends_after_its_lifetime(sessions: Sessions) -> None:
    cookie, _ = sessions.begin(user(), 0)
    assert sessions.find(cookie, {"alice": user()}, LIFETIME_MS - 1) is not None
    assert sessions.find(cookie, {"alice": user()}, LIFETIME_MS) is None
    assert len(sessions) == 0


@pytest.mark.parametrize(
    "users",
    [
        {},
        {"alice": User(name="alice", password_hash="another")},
        {"alice": User(name="alice", password_hash="hash", tags=("administrator",))},
        {"alice": User(name="alice", password_hash="hash", permissions={"/": Permission("", "", "")})},
    ],
    ids=["deleted", "password", "tags", "permissions"],
)
def test_it_ends_when_its_user_changes(sessions: Sessions, users: dict[str, User]) -> None:
    cookie, _ = sessions.begin(user(), 0)
    assert sessions.find(cookie, users, 1) is None
    assert sessions.find(cookie, {"alice": user()}, 1) is None, "it has ended for good"


def test_a_user_who_is_changed_in_place_has_changed_too(sessions: Sessions) -> None:
    alice = user()
    cookie, _ = sessions.begin(alice, 0)
    alice.permissions["/"] = Permission(".*", ".*", ".*")
    assert sessions.find(cookie, {"alice": alice}, 1) is None


def test_a_session_can_be_ended(sessions: Sessions) -> None:
    cookie, _ = sessions.begin(user(), 0)
    sessions.end(cookie)
    sessions.end("never begun")
    assert sessions.find(cookie, {"alice": user()}, 1) is None


def test_a_user_has_a_bounded_number_and_the_oldest_ends(sessions: Sessions) -> None:
    cookies = [sessions.begin(user(), 0)[0] for _ in range(SESSIONS_PER_USER_MAX + 1)]
    other, _ = sessions.begin(user("bob"), 0)
    users = {"alice": user(), "bob": user("bob")}
    assert sessions.find(cookies[0], users, 1) is None
    assert all(sessions.find(cookie, users, 1) for cookie in (*cookies[1:], other))


def test_all_users_together_have_a_bounded_number(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "SESSIONS_MAX", 3)
    for number in range(10):
        sessions.begin(user(f"user{number}"), 0)
    assert len(sessions) == 3
    sessions.begin(user(), LIFETIME_MS)
    assert len(sessions) == 1, "the old ones had ended"


def test_a_token_is_that_of_its_session(sessions: Sessions) -> None:
    (_, one), (_, two) = sessions.begin(user(), 0), sessions.begin(user(), 0)
    assert is_token(one, one.write_token)
    assert not any(is_token(one, wrong) for wrong in (two.write_token, "", "\udcff"))
