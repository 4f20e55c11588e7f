"""`openclust why-no-root`: an exit code for programs, a line a reason for people."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.clients.broker_process import free_port
from tests.support.manage.fake_member import put_member
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets

OFFLINE = {"root": None, "role": "elector", "why_no_root": [{"peer": "p2", "reason": "is offline"}]}


@pytest.fixture
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running


def run(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, ["why-no-root", *arguments], prog_name="openclust")


def test_a_root_is_named_with_exit_code_0(api: RunningApi) -> None:
    put_member(api)
    result = run("--url", api.url)
    assert (result.exit_code, result.stdout) == (0, "p1\n")


def test_every_reason_is_a_line_with_exit_code_1(api: RunningApi) -> None:
    why = [{"peer": "p2", "reason": "is offline"}, {"peer": "p3", "reason": "is starting"}]
    votes = {"given": 0, "following": 0, "electorate": 1, "defined": 3}
    put_member(api, root=None, role="elector", why_no_root=why, votes=votes)
    result = run("--url", api.url)
    lines = ["p2 is offline", "p3 is starting"]
    lines.append("a root needs the votes of 2 of the 3 primaries; 1 may vote now, and all of these must agree")
    assert (result.exit_code, result.stdout.splitlines()) == (1, lines)


def test_no_root_without_a_reason_is_not_silent(api: RunningApi) -> None:
    put_member(api, root=None, role="elector")
    result = run("--url", api.url)
    assert (result.exit_code, len(result.stdout.splitlines())) == (1, 2)


def test_json_has_the_same_exit_codes(api: RunningApi) -> None:
    put_member(api, **OFFLINE)
    result = run("--url", api.url, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["why_no_root"] == [{"peer": "p2", "reason": "is offline"}]
    put_member(api)
    result = run("--url", api.url, "--json")
    assert (result.exit_code, json.loads(result.stdout)["root"]) == (0, "p1")


def test_nobody_there_is_neither_yes_nor_no() -> None:
    assert run("--url", f"http://127.0.0.1:{free_port()}").exit_code == 2
