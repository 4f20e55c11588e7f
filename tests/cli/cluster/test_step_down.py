"""`openclust step-down`: the root is asked, and says what it did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.manage.fake_member import put_member
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets


@pytest.fixture
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running


def run(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, ["step-down", *arguments], prog_name="openclust")


def test_the_root_gives_up_its_place(api: RunningApi) -> None:
    member = put_member(api)
    result = run("--url", api.url, "--reason", "new kernel")
    assert (result.exit_code, result.stdout) == (0, "p1 gave up the root of epoch 3.\n")
    assert member.reasons == ["new kernel (asked by user 'guest')"]


def test_another_broker_says_no_and_where_the_root_is(api: RunningApi) -> None:
    put_member(api, name="p2", role="backup")
    result = run("--url", api.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "p2 is not the root, p1 is (http://127.0.0.1:15672); give --url of the root\n"


def test_a_wrong_login_is_bad_input(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLUST_PASSWORD", "wrong")
    member = put_member(api)
    result = run("--url", api.url.replace("guest:guest", "guest"))
    assert (result.exit_code, member.reasons) == (2, [])
    assert "wrong user name or password" in result.stderr
