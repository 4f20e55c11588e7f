"""`openclust drain`: finds the broker, asks it, and says what it did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.manage.fake_member import FakeMember, put_member, seen_by_root
from tests.support.manage.fake_membership import FakeMembership, put_membership
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets


@pytest.fixture
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running


@pytest.fixture
def member(api: RunningApi) -> FakeMember:
    return put_member(api, name="one")


@pytest.fixture
def membership(api: RunningApi, member: FakeMember) -> FakeMembership:
    return put_membership(api, member)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, ["drain", *arguments], prog_name="openclust")


def test_a_broker_is_emptied(api: RunningApi, membership: FakeMembership) -> None:
    result = run("one", "--url", api.url)
    told = "one sends its 24 clients away, at most 100 a second. It gave up its place as root.\n"
    assert (result.exit_code, result.stdout) == (0, told)
    assert membership.is_draining


def test_a_broker_that_cannot_be_spared_is_emptied_by_force_only(api: RunningApi, member: FakeMember) -> None:
    membership = put_membership(api, member, there=("p2",))
    result = run("one", "--url", api.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "without one there would be 1 of 3 primaries (p2), too few to elect a root; --force does it all the same\n"
    )
    assert not membership.is_draining
    assert run("one", "--url", api.url, "--force").exit_code == 0
    assert membership.is_draining


def test_undo_lets_clients_come_again(api: RunningApi, membership: FakeMembership) -> None:
    run("one", "--url", api.url)
    result = run("one", "--url", api.url, "--undo")
    assert (result.exit_code, result.stdout) == (0, "one takes clients again; it has 24.\n")
    assert not membership.is_draining


def test_another_broker_is_found_by_way_of_the_one_that_is_asked(api: RunningApi) -> None:
    """The API of `one` stands in for both: as p1 it says where `one` is."""
    brokers = [*seen_by_root()["brokers"], {**seen_by_root()["brokers"][1], "name": "one"}]
    brokers[-1]["http"] = f"http://127.0.0.1:{api.port}"
    membership = put_membership(api, put_member(api, name="p1", brokers=brokers))
    result = run("one", "--url", api.url)
    assert result.exit_code == 0, result.stderr
    assert membership.is_draining


def test_an_unknown_broker_is_bad_input(api: RunningApi, membership: FakeMembership) -> None:
    result = run("p9", "--url", api.url)
    assert result.exit_code == 2
    assert "one knows no broker 'p9'; there are p1, p2, p3" in result.stderr


def test_a_broker_without_an_api_must_be_asked_itself(api: RunningApi, membership: FakeMembership) -> None:
    result = run("p3", "--url", api.url)
    assert result.exit_code == 2
    assert "p3 has no HTTP API that one knows of" in result.stderr
