"""Password hashes, and the checker that many logins a second go through."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from typing import Any

import pytest

from openclust.broker.model.access import User
from openclust.shell.users.passwords import PasswordChecker, from_rabbit, hash_password, hash_problem, matches

HASH = hash_password("secret")


def rabbit(algorithm: str, password: bytes) -> str:
    salt = b"\x01\x02\x03\x04"
    return base64.b64encode(salt + hashlib.new(algorithm, salt + password).digest()).decode()


def test_a_hash_matches_its_password_only() -> None:
    assert matches(HASH, b"secret")
    assert not matches(HASH, b"Secret")
    assert not matches(HASH, b"")


def test_a_hash_has_the_documented_form_and_its_own_salt() -> None:
    assert HASH.startswith("scrypt$16384$8$1$")
    assert hash_password("secret") != HASH
    assert hash_problem(HASH) is None


def test_the_hash_is_plain_scrypt_of_utf8() -> None:
    *_, salt, digest = hash_password("pässword").split("$")
    expected = hashlib.scrypt("pässword".encode(), salt=base64.b64decode(salt), n=2**14, r=8, p=1, dklen=32)
    assert base64.b64decode(digest) == expected


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_hashes_of_rabbitmq_are_taken(algorithm: str) -> None:
    stored = from_rabbit(rabbit(algorithm, b"secret"), f"rabbit_password_hashing_{algorithm}")
    assert stored.startswith(f"rabbit_{algorithm}$")
    assert matches(stored, b"secret")
    assert not matches(stored, b"other")


def test_a_hash_made_by_rabbitmq_itself_matches() -> None:
    # the example of RabbitMQ's documentation: salt 90 8D C6 0A, password "test12"
    assert matches("rabbit_sha256$kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", b"test12")


def test_an_imported_hash_of_ours_or_none_stays_as_it_is() -> None:
    assert from_rabbit(HASH) == HASH
    assert from_rabbit("") == ""


def test_an_imported_hash_that_cannot_be_checked_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown hashing_algorithm"):
        from_rabbit("AAAA", "rabbit_password_hashing_md5")
    with pytest.raises(ValueError, match="four bytes of salt"):
        from_rabbit(rabbit("sha512", b"x"), "rabbit_password_hashing_sha256")


MALFORMED = [
    "secret",
    "$",
    "scrypt$",
    "scrypt$16384$8$1$AAAA",
    "scrypt$x$8$1$AAAA$AAAA",
    "scrypt$²$8$1$AAAA$AAAA",
    "scrypt$16384$8$1$!$!",
    HASH.replace("16384", "16383"),
    HASH.replace("$8$1$", "$0$1$"),
    HASH.replace("16384", "536870912"),
    HASH.replace("$8$1$", "$8$99999$"),
    HASH[:-7],
    HASH[:-24],
    "rabbit_sha256$AAAA",
    "rabbit_sha256$ä",
    "rabbit_md5$AAAA",
    "ünknown$",
]


@pytest.mark.parametrize("stored", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_hash_matches_nothing_and_is_logged_once(stored: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not matches(stored, b"secret")
        assert not matches(stored, b"")
    assert len(caplog.records) == 1
    assert HASH[20:] not in caplog.text
    assert hash_problem(stored)


def test_an_empty_hash_matches_nothing() -> None:
    assert not matches("", b"")


def user(name: str = "ann", password_hash: str = HASH) -> User:
    return User(name=name, password_hash=password_hash)


def checked(checker: PasswordChecker, who: User | None, *given: bytes) -> list[bool]:
    async def run() -> list[bool]:
        return list(await asyncio.gather(*(checker.check(who, password) for password in given)))

    try:
        return asyncio.run(run())
    finally:
        checker.close()


def count_scrypts(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords that were put through scrypt."""
    seen: list[bytes] = []
    real = hashlib.scrypt

    def counting(password: bytes, **parameters: Any) -> bytes:
        seen.append(password)
        return real(password, **parameters)

    monkeypatch.setattr(hashlib, "scrypt", counting)
    return seen


def test_the_checker_knows_right_from_wrong() -> None:
    assert checked(PasswordChecker(), user(), b"secret", b"wrong") == [True, False]


def test_a_user_without_a_password_cannot_log_in_with_one(caplog: pytest.LogCaptureFixture) -> None:
    assert checked(PasswordChecker(), user(password_hash=""), b"", b"secret") == [False, False]
    assert not caplog.records, "nothing is wrong with such a user"


@pytest.mark.parametrize("who", [None, user(password_hash=""), user(password_hash="rabbit_sha256$AAAA")])
def test_an_unknown_user_costs_as_much_as_a_wrong_password(who: User | None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count_scrypts(monkeypatch)
    assert checked(PasswordChecker(), who, b"secret") == [False]
    assert seen == [b"secret"]


def test_a_login_that_was_right_is_known_without_a_task() -> None:
    checker = PasswordChecker()
    assert checker.cached(user(), b"secret") is None
    checked(checker, user(), b"secret", b"wrong")
    assert checker.cached(user(), b"secret") is True
    assert checker.cached(user(), b"wrong") is None
    assert checker.cached(None, b"secret") is None
    assert checker.cached(user(name="bob"), b"secret") is None


def test_a_new_password_forgets_the_old_one() -> None:
    checker = PasswordChecker()
    checked(checker, user(), b"secret")
    assert checker.cached(user(password_hash=hash_password("secret")), b"secret") is None


def test_name_and_hash_cannot_run_into_each_other() -> None:
    checker = PasswordChecker()
    assert checked(checker, user("ann", HASH), b"secret") == [True]
    assert checker.cached(user(f"ann{HASH[0]}", HASH[1:]), b"secret") is None
    assert checker.cached(user("ann", HASH[:-1]), HASH[-1:].encode() + b"secret") is None


def test_logins_alike_at_the_same_time_are_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count_scrypts(monkeypatch)
    checker = PasswordChecker(waiting_max=2)
    assert checked(checker, user(), *[b"secret"] * 1_000) == [True] * 1_000
    assert len(seen) == 1


def test_past_the_bound_logins_are_refused_and_the_log_says_busy(caplog: pytest.LogCaptureFixture) -> None:
    wrong = [b"a", b"b", b"c", b"secret"]
    assert checked(PasswordChecker(waiting_max=3), user(), *wrong) == [False] * 4
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["busy"]


def test_a_login_that_goes_away_does_not_take_the_others_with_it() -> None:
    checker = PasswordChecker()

    async def run() -> bool:
        first = asyncio.ensure_future(checker.check(user(), b"secret"))
        second = asyncio.ensure_future(checker.check(user(), b"secret"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(run())
    checker.close()


def test_the_cache_is_bounded_and_forgets_the_one_not_used_longest() -> None:
    checker = PasswordChecker(cache_max=2)
    hashes = {name: f"rabbit_sha256${rabbit('sha256', name.encode())}" for name in "abc"}

    async def log_in(name: str) -> None:
        assert await checker.check(user(name, hashes[name]), name.encode())

    async def run() -> None:
        await log_in("a")
        await log_in("b")
        assert checker.cached(user("a", hashes["a"]), b"a")
        await log_in("c")

    asyncio.run(run())
    checker.close()
    known = [name for name in "abc" if checker.cached(user(name, hashes[name]), name.encode())]
    assert known == ["a", "c"]
