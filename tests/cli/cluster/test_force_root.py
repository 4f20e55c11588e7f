"""`openclust force-root`: only who accepts the loss, only where there is no root."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.manage.fake_member import put_member
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets

ACCEPTED = "--i-accept-data-loss"


@pytest.fixture
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running


def run(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, ["force-root", *arguments], prog_name="openclust")


def test_it_wants_to_hear_that_the_loss_is_accepted(api: RunningApi) -> None:
    result = run("--url", api.url)
    assert result.exit_code == 2
    assert "add --i-accept-data-loss" in result.stderr


def test_where_there_is_a_root_nothing_is_forced(api: RunningApi) -> None:
    member = put_member(api)
    result = run("--url", api.url, ACCEPTED)
    assert (result.exit_code, result.stderr, member.forced) == (1, "p1 is root; nothing has to be forced\n", 0)


def test_a_broker_that_is_no_elector_says_so(api: RunningApi) -> None:
    put_member(api, root=None, role="secondary", name="s1")
    result = run("--url", api.url, ACCEPTED)
    assert result.exit_code == 1
    assert result.stderr == "s1 is secondary: only a primary that is an elector can be forced\n"


def test_an_elector_becomes_root(api: RunningApi) -> None:
    member = put_member(api, root=None, role="elector")
    result = run("--url", api.url, ACCEPTED)
    assert (result.exit_code, result.stdout, member.forced) == (0, "p1 is root of epoch 4, by force.\n", 1)
