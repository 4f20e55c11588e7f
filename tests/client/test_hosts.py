"""Which brokers a client knows, and in which order it tries them."""

from __future__ import annotations

import random

import pytest
from yarl import URL

from openclust.client.hosts import Hosts, address_of, moved_to, parse_urls


def backwards(addresses: list[str]) -> None:
    """A shuffle that can be foreseen."""
    addresses.reverse()


def hosts(urls: str | list[str]) -> Hosts:
    return Hosts(urls, backwards)


def order(known: Hosts) -> list[str]:
    return [address_of(url) for url in known.order()]


ABC = "amqp://a:1/,amqp://b:2/,amqp://c:3/"


@pytest.mark.parametrize("urls", [ABC, ABC.split(","), [URL(each) for each in ABC.split(",")], ABC.replace(",", " , ")])
def test_a_list_of_urls_may_be_a_text_or_a_list(urls: str | list[str]) -> None:
    assert order(hosts(urls)) == ["a:1", "b:2", "c:3"]


def test_a_url_without_a_port_has_that_of_its_scheme() -> None:
    assert order(hosts("amqp://a,amqps://a")) == ["a:5672", "a:5671"]


def test_a_broker_that_is_named_twice_is_tried_once() -> None:
    assert order(hosts("amqp://a:1/x,amqp://a:1/y")) == ["a:1"]


@pytest.mark.parametrize("urls", ["", " , ", []])
def test_an_empty_list_is_refused(urls: str | list[str]) -> None:
    with pytest.raises(ValueError, match="no broker to connect to: give at least one URL"):
        parse_urls(urls)


@pytest.mark.parametrize(
    "text", ["http://a:1/", "a:5672", "localhost", "amqp:///vhost", "amqp://a:99999/", "amqp://[a/"]
)
def test_what_is_no_url_of_a_broker_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the URL of a broker"):
        parse_urls(["amqp://fine/", text])


def test_the_refusal_of_a_url_keeps_its_password() -> None:
    with pytest.raises(ValueError, match="not the URL of a broker") as refused:
        parse_urls("http://me:secret@a/")
    assert "secret" not in str(refused.value)
    assert "http://a" in str(refused.value)


def test_known_hosts_come_after_the_given_ones() -> None:
    known = hosts("amqp://b:2/,amqp://a:1/")
    known.learn("c:3,a:1,d:4", known.first)
    assert order(known) == known.addresses == ["b:2", "a:1", "c:3", "d:4"]


def test_newer_known_hosts_replace_older_ones_but_never_the_given() -> None:
    known = hosts("amqp://a:1/")
    known.learn("c:3,d:4", known.first)
    known.learn("d:4,e:5", known.first)
    assert order(known) == ["a:1", "d:4", "e:5"]


@pytest.mark.parametrize(
    "nothing", ["", "  ", "nonsense", "a:0", "a:65536", ":5", "a:", "a:x", "a b:5", "a/b:5", "a:-1"]
)
def test_what_cannot_be_read_teaches_nothing(nothing: str) -> None:
    known = hosts("amqp://a:1/")
    known.learn("c:3", known.first)
    known.learn(nothing, known.first)
    assert order(known) == ["a:1", "c:3"]


def test_what_can_be_read_beside_it_is_learnt() -> None:
    known = hosts("amqp://a:1/")
    known.learn("c:3,nonsense, [::1]:7 ,d:4", known.first)
    assert order(known) == ["a:1", "c:3", "[::1]:7", "d:4"]


@pytest.mark.parametrize(
    "url",
    [
        "amqps://me:p%40ss@a:5671/my%2Fhost?cafile=/etc/ca.pem&heartbeat=3",
        "amqp://a:1/%2F",
        "amqp://me:pass@a:1",
        "amqps://a:5671/x?name=my+name",
    ],
)
def test_another_host_is_reached_with_everything_but_host_and_port(url: str) -> None:
    known = hosts(url)
    known.learn("other:77", known.first)
    before, after = known.order()
    assert str(after) == str(before).replace(f"{before.host}:{before.port}", "other:77")


def test_a_known_host_that_was_given_keeps_the_url_it_was_given_with() -> None:
    known = hosts("amqp://me:one@a:1/,amqp://you:two@b:2/vhost")
    known.learn("b:2", known.first)
    assert known.url_for("b:2", known.first) == URL("amqp://you:two@b:2/vhost")
    assert [url.user for url in known.order()] == ["me", "you"]


def test_after_a_loss_the_lost_broker_is_tried_last_and_the_others_in_any_order() -> None:
    known = hosts(ABC)
    known.learn("d:4", known.first)
    known.lost(URL("amqp://b:2/"))
    assert order(known) == ["d:4", "c:3", "a:1", "b:2"]


def test_the_clients_of_a_dead_broker_do_not_all_turn_to_the_same() -> None:
    firsts = set()
    for seed in range(50):
        known = Hosts(ABC, random.Random(seed).shuffle)
        known.lost(known.first)
        firsts.add(order(known)[0])
    assert firsts == {"b:2", "c:3"}


def test_a_lost_broker_that_nobody_names_any_more_is_not_tried() -> None:
    known = hosts("amqp://a:1/")
    known.learn("c:3", known.first)
    known.lost(URL("amqp://gone:9/"))
    assert order(known) == ["c:3", "a:1"]


def test_a_connection_goes_first_where_the_broker_said() -> None:
    known = hosts(ABC)
    known.lost(known.first, "CONNECTION_FORCED - moved to c:3 (rebalancing)")
    assert order(known) == ["c:3", "b:2", "a:1"]


def test_it_goes_there_also_if_it_never_heard_of_that_broker() -> None:
    known = hosts("amqps://me:pw@a:1/v?heartbeat=3")
    known.lost(known.first, "moved to new:9")
    assert known.order() == [URL("amqps://me:pw@new:9/v?heartbeat=3"), known.first]
    assert known.addresses == ["a:1"], "nothing grows with what brokers say at the end"


def test_a_later_loss_forgets_where_an_earlier_one_led() -> None:
    known = hosts(ABC)
    known.lost(known.first, "moved to c:3")
    known.lost(known.first)
    assert order(known) == ["c:3", "b:2", "a:1"]
    known.lost(known.first, "moved to b:2")
    known.reached()
    assert order(known) == ["a:1", "b:2", "c:3"]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("CONNECTION_FORCED - moved to 10.0.0.2:5672 (rebalancing)", "10.0.0.2:5672"),
        ("CONNECTION_FORCED - moved to b.example:5672", "b.example:5672"),
        ("moved to [::1]:5672 (drain)", "[::1]:5672"),
        ("CONNECTION_FORCED - the broker shuts down", ""),
        ("moved to nowhere", ""),
        ("moved to a:1234567", ""),
        ("", ""),
    ],
)
def test_a_closing_broker_may_say_where_to_go(text: str, target: str) -> None:
    assert moved_to(text) == target


def test_a_new_password_is_used_everywhere() -> None:
    known = hosts("amqp://me:old@a:1/,amqp://me:old@b:2/")
    known.learn("c:3", known.first)
    known.lost(known.first, "moved to d:4")
    known.with_password("new")
    assert [url.password for url in known.order()] == ["new"] * 4
