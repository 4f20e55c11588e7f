from __future__ import annotations

import pytest

from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.url import BrokerUrl, parse_named_urls, parse_url


def test_a_bare_url_is_guest_at_the_default_port_and_virtual_host() -> None:
    assert parse_url("amqp://localhost") == BrokerUrl("localhost", 5672, "guest", "guest", "/")


@pytest.mark.parametrize(
    ("path", "vhost"), [("", "/"), ("/", "/"), ("/%2F", "/"), ("/shop", "shop"), ("/a%2Fb", "a/b")]
)
def test_the_path_is_the_virtual_host(path: str, vhost: str) -> None:
    assert parse_url(f"amqp://h:1{path}").vhost == vhost


def test_user_and_password_are_unquoted() -> None:
    url = parse_url("amqp://an%40na:p%2Fw%3A@h:5673/")
    assert (url.user, url.password, url.port) == ("an@na", "p/w:", 5673)


def test_an_ipv6_host_keeps_its_brackets_in_messages() -> None:
    url = parse_url("amqp://[::1]:5673/")
    assert (url.host, url.address) == ("::1", "[::1]:5673")


@pytest.mark.parametrize(
    "text", ["http://h/", "localhost:5672", "amqp://", "amqp://h:port/", "amqp://h:99999/", "amqp://h/a/b"]
)
def test_what_is_no_amqp_url_is_named_in_the_error(text: str) -> None:
    with pytest.raises(BenchError) as raised:
        parse_url(text)
    assert repr(text) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_tls_is_refused_and_not_tried_as_plain_tcp() -> None:
    with pytest.raises(BenchError, match="plain TCP only"):
        parse_url("amqps://h/")


def test_a_named_url_may_have_equals_signs_in_its_password() -> None:
    assert parse_named_urls("rabbit-1=amqp://u:a=b@h/") == ("rabbit-1", [BrokerUrl("h", user="u", password="a=b")])


def test_the_brokers_of_one_cluster_stand_behind_one_name() -> None:
    found = parse_named_urls("rabbit=amqp://a:1/,amqp://u:a,b@b:2/,amqp://c/")
    assert found == ("rabbit", [BrokerUrl("a", 1), BrokerUrl("b", 2, user="u", password="a,b"), BrokerUrl("c")])


@pytest.mark.parametrize("text", ["amqp://h/", "=amqp://h/", "two words=amqp://h/", "name="])
def test_a_comparison_without_a_name_says_how_to_write_it(text: str) -> None:
    with pytest.raises(BenchError, match="NAME=URL"):
        parse_named_urls(text)
