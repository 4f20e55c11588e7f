"""`openclust status`: what a broker says of its cluster, for people and for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from openclust.cli import watch as watch_module
from openclust.cli.main import openclust
from tests.support.clients.broker_process import free_port
from tests.support.clients.deadline import eventually
from tests.support.manage.fake_member import put_member, seen_by_root
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets


@pytest.fixture
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running


def run(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, ["status", *arguments], prog_name="openclust")


def test_a_cluster_with_a_root(api: RunningApi) -> None:
    put_member(api)
    result = run("--url", api.url)
    assert result.exit_code == 0
    assert result.stdout == (
        "cluster demo (c0ffee), as p1 sees it (root)\n"
        "\n"
        "broker  role              online  senior since                 vote     heard        clients at      "
        "connections  queues  disk\n"
        "p1      root              yes     2023-11-14 22:13:20.123 UTC  p1 in 3  0 ms ago     127.0.0.1:5672  "
        "4            2       well\n"
        "p2      backup, draining  yes     2023-11-14 22:13:20.456 UTC  p1 in 3  42 ms ago    127.0.0.1:5673  "
        "3            0       No space left on device\n"
        "p3      never heard       no      -                            -        -            127.0.0.1:5674  "
        "-            -       -\n"
        "s1      secondary         yes     -                            -        7100 ms ago  127.0.0.1:5675  "
        "1            12      -\n"
        "\n"
        "root p1 since epoch 3, log up to 3.1042, followed by 3 of 3 primaries (2 voted for it)\n"
        "store up to 3.1042, committed up to 3.1040 (2 entries, 1 kB to go), 0 B to be written, disk well\n"
        "ready for clients\n"
        "all brokers: 0 messages (0 ready, 0 unacknowledged) in 0 queues, 0 connections\n"
        "all brokers: 0/s published, 0/s delivered, 0/s acknowledged, 0/s confirmed\n"
        "\n"
        "link to  state       lag  on disk  sent  relayed  waiting     dropped  error\n"
        "p2       connected   0    2        17    5        0           0\n"
        "p3       connecting  -    -        0     0        2 (1.6 MB)  5        Connection refused\n"
        "s1       connected   31   31       9     0        3 (950 B)   0\n"
        "\n"
        "at  connections  queues  published  delivered  relayed  meta-bindings (held/told/repaired)\n"
        "p1  4            2       1204/s     3.5/s      0/s      40/2/1\n"
    )


def test_what_ails_the_disk_is_shown(api: RunningApi) -> None:
    member = put_member(api)
    member.snapshot()["store"] |= {"waiting_bytes": 70_000_000, "illness": "No space left\x1b[2J", "committed": None}
    assert (
        "\nstore up to 3.1042, 70.0 MB to be written, disk ill: No space left\\x1b[2J\n" in run("--url", api.url).stdout
    )


def test_a_broker_without_a_disk_says_so(api: RunningApi) -> None:
    assert "\nstore in memory only: what is durable is lost with the process\n" in run("--url", api.url).stdout


def test_a_broker_that_has_not_joined_yet_is_shown(api: RunningApi) -> None:
    put_member(api).snapshot().update(cluster_uuid=None, root=None, role="secondary", votes=None)
    assert "as p1 sees it (secondary)" in run("--url", api.url).stdout


def test_a_broker_without_the_newer_numbers_is_shown(api: RunningApi) -> None:
    link = {"peer": "p2", "state": "connected"}
    broker = {"name": "p2", "role": "backup", "online": True, "address": "127.0.0.1:5673"}
    member = put_member(api, links=[link], brokers=[broker])
    for key in (
        "rates",
        "meta_bindings",
        "position",
        "store",
        "cluster_uuid",
        "is_ready",
        "publishers",
        "votes_needed",
    ):
        del member.snapshot()[key]
    assert run("--url", api.url).stdout == (
        "cluster demo, as p1 sees it (root)\n"
        "\n"
        "broker  role    online  senior since  vote  heard  clients at      connections  queues  disk\n"
        "p2      backup  yes     -             -     -      127.0.0.1:5673  -            -       -\n"
        "\n"
        "root p1 since epoch 3, followed by 3 of 3 primaries (2 voted for it)\n"
        "all brokers: 0 messages (0 ready, 0 unacknowledged) in 0 queues, 0 connections\n"
        "all brokers: 0/s published, 0/s delivered, 0/s acknowledged, 0/s confirmed\n"
        "\n"
        "link to  state      lag  on disk  sent  relayed  waiting  dropped  error\n"
        "p2       connected  -    -        0     -        0        0\n"
        "\n"
        "at  connections  queues  published  delivered  relayed  meta-bindings (held/told/repaired)\n"
        "p1  4            2       -          -          -        -/-/-\n"
    )


def test_a_secondary_has_no_votes_to_show(api: RunningApi) -> None:
    put_member(api, name="s1", role="secondary", votes=None, seniority_ms=None)
    text = run("--url", api.url).stdout
    assert "as s1 sees it (secondary)" in text
    assert "\nroot p1 since epoch 3, log up to 3.1042\n" in text


def test_a_secondary_without_a_root_says_why(api: RunningApi) -> None:
    why = [{"peer": "p1", "reason": "is not linked"}]
    put_member(api, name="s1", role="secondary", votes=None, root=None, position=None, why_no_root=why)
    shown = "\nno root\n  p1 is not linked\n  a root needs the votes of 2 of the 3 primaries\n"
    assert shown in run("--url", api.url).stdout


def test_a_broker_that_is_not_ready_says_what_is_missing(api: RunningApi) -> None:
    missing = [
        {"check": "root", "reason": "no root: p2 is offline"},
        {"check": "disk", "reason": "the disk is\x1b ill"},
    ]
    put_member(api, is_ready=False, not_ready=missing)
    shown = "\nnot ready for clients:\n  no root: p2 is offline\n  the disk is\\x1b ill\n"
    assert shown in run("--url", api.url).stdout


def test_publishers_that_wait_are_shown_with_the_reason_here_and_elsewhere(api: RunningApi) -> None:
    member = put_member(api, publishers={"is_blocked": True, "reason": "low on memory", "waiting": 7})
    member.snapshot()["brokers"][1]["is_blocked"] = True
    text = run("--url", api.url).stdout
    assert "\npublishers wait: low on memory (7 connections now)\n" in text
    assert "\np2      backup, draining, publishers wait  yes " in text


def test_without_a_root_it_says_why(api: RunningApi) -> None:
    why = [{"peer": "p2", "reason": "is offline"}, {"peer": "p3\x1b[2J", "reason": "is starting"}]
    put_member(api, root=None, role="elector", votes={"given": 0, "electorate": 1, "defined": 3}, why_no_root=why)
    text = run("--url", api.url).stdout
    assert (
        "no root, log up to 3.1042\n  p2 is offline\n  p3\\x1b[2J is starting\n"
        "  a root needs the votes of 2 of the 3 primaries; 1 may vote now, and all of these must agree\n" in text
    ), "what a peer says steers no terminal"


def test_json_is_what_the_broker_said(api: RunningApi) -> None:
    put_member(api, more="from a later version")
    result = run("--url", api.url, "--json")
    document = json.loads(result.stdout)
    assert document.pop("whole_cluster")["messages"] == 0
    assert document == seen_by_root() | {"more": "from a later version"}


def test_a_standalone_broker_is_a_cluster_of_one(api: RunningApi) -> None:
    eventually(lambda: api.get("/api/cluster")["root"])
    assert "root one since epoch" in run("--url", api.url).stdout


def interrupt_after(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """A person who watches so many rounds, and has seen enough."""
    left = [rounds]

    def sleep(_: float) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch_module, "time", type("", (), {"sleep": staticmethod(sleep), "time": time.time}))


def test_watching_goes_on_until_ctrl_c(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    put_member(api)
    interrupt_after(monkeypatch, 3)
    result = run("--url", api.url, "--watch")
    assert (result.exit_code, result.stdout.count("root p1 since epoch 3")) == (0, 3)


def test_watching_as_json_is_a_document_a_line(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    put_member(api)
    interrupt_after(monkeypatch, 2)
    lines = run("--url", api.url, "--watch", "--json").stdout.splitlines()
    assert [json.loads(line) | {"whole_cluster": 0} for line in lines] == [seen_by_root() | {"whole_cluster": 0}] * 2


def test_watching_outlives_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(monkeypatch, 2)
    result = run("--url", f"http://127.0.0.1:{free_port()}", "--watch")
    assert (result.exit_code, result.stderr.count("no answer from the HTTP API")) == (0, 2)


def test_nobody_there_is_one_line() -> None:
    result = run("--url", f"http://127.0.0.1:{free_port()}")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "is a broker running there" in result.stderr


def test_an_answer_of_another_shape_is_one_line(api: RunningApi) -> None:
    put_member(api, brokers="none")
    result = run("--url", api.url)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "what this version does not understand" in result.stderr
