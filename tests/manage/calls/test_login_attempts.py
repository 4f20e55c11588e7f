"""Wrong logins: after too many of one name, or from one address, there is a time to wait."""

from __future__ import annotations

import pytest

from openclust.manage.calls import login_attempts
from openclust.manage.calls.login_attempts import INTERVAL_MS, NAMES_PER_ADDRESS, LoginAttempts, network

MOST = 5


@pytest.fixture
def attempts() -> LoginAttempts:
    return LoginAttempts(MOST)


def test_so_many_wrong_logins_are_free(attempts: LoginAttempts) -> None:
    for _ in range(MOST):
        assert attempts.wait_ms("10.0.0.1", "alice", 0) == 0
        attempts.wrong("10.0.0.1", "alice", 0)
    assert attempts.wait_ms("10.0.0.1", "alice", 0) > 0


def test_who_waits_as_long_as_told_may_try_once_more(attempts: LoginAttempts) -> None:
    for _ in range(MOST):
        attempts.wrong("10.0.0.1", "alice", 0)
    wait_ms = attempts.wait_ms("10.0.0.1", "alice", 0)
    assert wait_ms == INTERVAL_MS // MOST
    assert attempts.wait_ms("10.0.0.1", "alice", wait_ms - 1) == 1
    assert attempts.wait_ms("10.0.0.1", "alice", wait_ms) == 0
    attempts.wrong("10.0.0.1", "alice", wait_ms)
    assert attempts.wait_ms("10.0.0.1", "alice", wait_ms) > 0


def test_other_names_and_other_addresses_do_not_wait(attempts: LoginAttempts) -> None:
    for _ in range(MOST):
        attempts.wrong("10.0.0.1", "alice", 0)
    assert attempts.wait_ms("10.0.0.1", "bob", 0) == 0
    assert attempts.wait_ms("10.0.0.2", "alice", 0) == 0


def test_who_tries_a_password_with_many_names_waits_too(attempts: LoginAttempts) -> None:
    for number in range(MOST * NAMES_PER_ADDRESS):
        assert attempts.wait_ms("10.0.0.1", f"user{number}", 0) == 0
        attempts.wrong("10.0.0.1", f"user{number}", 0)
    assert attempts.wait_ms("10.0.0.1", "anybody", 0) > 0


def test_a_right_login_makes_its_name_good_but_not_its_address(attempts: LoginAttempts) -> None:
    for number in range(MOST * NAMES_PER_ADDRESS):
        attempts.wrong("10.0.0.1", f"user{number % 20}", 0)
        attempts.right("10.0.0.1", f"user{number % 20}")
    assert attempts.wait_ms("10.0.0.1", "user1", 0) > 0, "one account of one's own does not make guessing free"
    assert attempts.wait_ms("10.0.0.1", "user1", INTERVAL_MS) == 0


def test_without_a_limit_nothing_is_counted() -> None:
    attempts = LoginAttempts(0)
    for _ in range(1_000):
        attempts.wrong("10.0.0.1", "alice", 0)
    assert (attempts.wait_ms("10.0.0.1", "alice", 0), len(attempts)) == (0, 0)


def test_the_table_is_bounded_and_the_newest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_attempts, "ENTRIES_MAX", 10)
    attempts = LoginAttempts(1)
    for number in range(100):
        attempts.wrong(f"10.0.0.{number}", "alice", 0)
    assert len(attempts) == 10
    assert attempts.wait_ms("10.0.0.99", "alice", 0) > 0


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_network_counts_as_one_address(address: str, counted: str) -> None:
    assert network(address) == counted
