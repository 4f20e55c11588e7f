"""`openclust NOUN list`: pages, filters, columns, and the brokers that did not answer."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click
import pytest
from click.testing import CliRunner, Result

from openclust.cli import watch as watch_module
from openclust.cli.http_client import HttpAnswer
from openclust.cli.listing.listing import ROWS_MAX, Wanted, fetch
from openclust.cli.main import openclust
from openclust.cli.objects.bindings import BINDINGS
from openclust.cli.objects.queues import QUEUES
from tests.support.cli.fake_client import FakeClient, use


def page(*names: str, number: int = 1, of: int = 1, total: int | None = None) -> dict[str, Any]:
    rows = [{"name": name, "vhost": "/", "messages": len(name)} for name in names]
    count = len(rows) if total is None else total
    return {"items": rows, "page": number, "page_count": of, "filtered_count": count, "total_count": count + 5}


def query(client: FakeClient, call: int = 0) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(client.asked[call][1]).query).items()}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, arguments, prog_name="openclust")


def test_all_pages_are_one_list() -> None:
    client = FakeClient(page("a", "b", of=2, total=3), page("c", number=2, of=2, total=3))
    found = fetch(client, QUEUES, Wanted())
    assert ([row["name"] for row in found.rows], found.total, found.missing) == (["a", "b", "c"], 3, ())
    assert [query(client, call)["page"] for call in (0, 1)] == ["1", "2"]
    assert query(client)["page_size"] == "500"


def test_no_page_is_asked_for_that_the_limit_does_not_need() -> None:
    client = FakeClient(page("a", "b", of=9, total=18))
    found = fetch(client, QUEUES, Wanted(limit=2))
    assert (len(found.rows), found.total, len(client.asked), query(client)["page_size"]) == (2, 18, 1, "2")
    assert ROWS_MAX % 500 == 0


def test_a_list_that_becomes_shorter_while_it_is_read_ends() -> None:
    client = FakeClient(page("a", of=2, total=2), HttpAnswer(400, {"error": "page_out_of_range"}, ()))
    assert [row["name"] for row in fetch(client, QUEUES, Wanted()).rows] == ["a"]


def test_filter_order_and_columns_are_done_at_the_brokers() -> None:
    client = FakeClient(page())
    fetch(client, QUEUES, Wanted("a/b", "^or", True, "messages", True, ("messages", "vhost")))
    assert client.asked[0][1].startswith("/api/queues/a%2Fb?")
    assert query(client) == {
        "page": "1",
        "page_size": "500",
        "name": "^or",
        "use_regex": "true",
        "sort": "messages",
        "sort_reverse": "true",
        "columns": "messages,vhost,name",
    }


def test_a_list_without_pages_is_filtered_here() -> None:
    rows = [{"source": "logs", "destination": "q1"}, {"source": "", "destination": "Orders"}, []]
    for name, is_regex in (("order", False), ("^orders$", True)):
        found = fetch(FakeClient(rows), BINDINGS, Wanted(name=name, is_regex=is_regex))
        assert (found.rows, found.total) == ([rows[1]], 1)
    assert fetch(FakeClient(rows), BINDINGS, Wanted(limit=1)).total == 3
    with pytest.raises(click.UsageError, match="no regular expression"):
        fetch(FakeClient(rows), BINDINGS, Wanted(name="(", is_regex=True))


def test_only_the_columns_that_were_asked_for_are_in_the_rows() -> None:
    found = fetch(FakeClient(page("abc")), QUEUES, Wanted(name="a", columns=("messages",)))
    assert found.rows == [{"messages": 3}]


@pytest.mark.parametrize(
    ("status", "vhost", "told"),
    [
        (404, None, "http://127.0.0.1:1 has no list like this"),
        (404, "nope", "http://127.0.0.1:1 has no virtual host 'nope'"),
        (401, None, "refused this: why; give a user in --url"),
    ],
)
def test_a_refusal_is_one_line(status: int, vhost: str | None, told: str) -> None:
    with pytest.raises(click.ClickException) as raised:
        fetch(FakeClient(HttpAnswer(status, {"reason": "why"}, ())), QUEUES, Wanted(vhost))
    assert told in raised.value.message


# -- the command


def test_a_table_has_the_usual_columns_or_those_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient(page("orders")))
    first, second = run("queues", "list").stdout.splitlines()
    heads = ["vhost", "name", "messages", "ready", "unacked", "consumers", "in", "out", "state", "node"]
    assert first.split() == [*heads, "type", "policy"]
    assert second.split() == ["/", "orders", "6", *("-",) * 9]
    result = run("queues", "list", "--columns", "messages,name,odd.thing")
    assert result.stdout == "messages  name    odd.thing\n6         orders  -\n"


def test_headings_are_names_of_columns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, FakeClient(page("q")))
    run("queues", "list", "--columns", "name,unacked", "--sort", "ready", "--reverse")
    assert query(client)["columns"] == "name,messages_unacknowledged"
    assert (query(client)["sort"], query(client)["sort_reverse"]) == ("messages_ready", "true")


def test_json_is_the_rows_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, FakeClient(HttpAnswer(200, page("q", total=7), ("s1", "s2"))))
    result = run("queues", "list", "--json")
    assert json.loads(result.stdout) == [{"name": "q", "vhost": "/", "messages": 1}]
    assert "columns" not in query(client), "a program gets all of them"
    assert result.stderr == (
        "openclust: warning: no answer from s1, s2: rows that only they have are left out\n"
        "openclust: note: 1 of 7 queues are shown (--limit, --name)\n"
    )
    assert result.exit_code == 1, "a program must not take some of the rows for all"


def test_brokers_that_did_not_answer_are_named_below_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient(HttpAnswer(200, page("q"), ("p2\x1b[2J",))))
    result = run("queues", "list", "--columns", "name")
    assert (result.stdout, result.exit_code) == ("name\nq\n", 1)
    assert "no answer from p2\\x1b[2J:" in result.stderr


def test_names_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient(page("q\x1b[2J")))
    assert run("queues", "list", "--columns", "name").stdout == "name\nq\\x1b[2J\n"


def test_watching_goes_on_past_a_refusal_and_ends_with_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient(page("a"), HttpAnswer(503, {"reason": "no root"}, ()), page("b")))
    left = [3]

    def sleep(_: float) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch_module, "time", type("", (), {"sleep": staticmethod(sleep)}))
    result = run("queues", "list", "--watch", "--json", "--columns", "name")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        [{"name": "a", "vhost": "/", "messages": 1}],
        [{"name": "b", "vhost": "/", "messages": 1}],
    ]
    assert "no root" in result.stderr
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("noun", "path"),
    [
        ("exchanges", "/api/exchanges/v"),
        ("bindings", "/api/bindings/v"),
        ("connections", "/api/vhosts/v/connections"),
        ("channels", "/api/vhosts/v/channels"),
        ("consumers", "/api/consumers/v"),
        ("policies", "/api/policies/v"),
    ],
)
def test_every_noun_is_listed_by_virtual_host(monkeypatch: pytest.MonkeyPatch, noun: str, path: str) -> None:
    client = use(monkeypatch, FakeClient([]))
    assert run(noun, "list", "--vhost", "v").exit_code == 0
    assert client.asked[0][1].startswith(f"{path}?")


def test_an_order_needs_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeClient([]))
    assert "--reverse needs --sort" in run("nodes", "list", "--reverse").stderr
