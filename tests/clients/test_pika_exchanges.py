"""Exchange types, bindings, and what exchanges do with messages, with pika."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.clients.pika_client import (
    Client,
    arrive,
    bodies,
    channel_closed,
    connection_closed,
    consume,
    depth,
    drain,
    get,
    publish,
    pump,
    temporary_exchange,
    temporary_queue,
    unique,
)

pytestmark = pytest.mark.sockets


def bound(channel: BlockingChannel, exchange: str, key: str = "", arguments: dict[str, Any] | None = None) -> str:
    queue = temporary_queue(channel)
    channel.queue_bind(queue, exchange, key, arguments)
    return queue


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_the_standard_exchanges_are_there_and_durable(channel: BlockingChannel, name: str, kind: str) -> None:
    channel.exchange_declare(name, kind, durable=True)


def test_the_default_exchange_reaches_every_queue_by_its_name(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(channel, queue, b"by name")
    received = get(channel, queue)
    assert (received.body, received.method.exchange, received.method.routing_key) == (b"by name", "", queue)


def test_direct_matches_the_whole_key(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "direct")
    queue = bound(channel, exchange, "a.b")
    for key in ("a.b", "a", "a.b.c", "A.B", ""):
        publish(channel, key, key, exchange=exchange)
    assert drain(channel, queue) == [b"a.b"]


def test_fanout_ignores_the_key(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "fanout")
    queues = [bound(channel, exchange, key) for key in ("x", "y")]
    publish(channel, "z", b"all", exchange=exchange)
    assert [get(channel, queue).body for queue in queues] == [b"all", b"all"]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a.*.c", ["a.b.c", "a..c"], ["a.c", "a.b.b.c", "a.b.c.d"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["b.a", "ab", ""]),
        ("#", ["", "a", "a.b.c", "."], []),
        ("*", ["a"], ["a.b"]),
        ("#.c", ["c", "a.c", "a.b.c"], ["c.d"]),
        ("a.#.z", ["a.z", "a.b.z", "a.b.c.z"], ["a", "z"]),
        ("#.#", ["", "a", "a.b"], []),
        ("*.#", ["a", "a.b", "."], []),
        ("a.#.*.#.z", ["a.b.z", "a.b.c.z"], ["a.z"]),
        ("", [""], ["a"]),
        ("a*.b", ["a*.b"], ["ab.b"]),
    ],
)
def test_topic_patterns(channel: BlockingChannel, pattern: str, yes: list[str], no: list[str]) -> None:
    exchange = temporary_exchange(channel, "topic")
    queue = bound(channel, exchange, pattern)
    for key in (*yes, *no):
        publish(channel, key, key or "(empty)", exchange=exchange)
    assert drain(channel, queue) == [key.encode() or b"(empty)" for key in yes]


def test_an_empty_topic_key_has_no_words(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "topic")
    star, hash_ = bound(channel, exchange, "*"), bound(channel, exchange, "#")
    publish(channel, "", b"x", exchange=exchange)
    assert (drain(channel, star), drain(channel, hash_)) == ([], [b"x"])


def test_a_queue_bound_twice_gets_one_copy(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "topic")
    queue = bound(channel, exchange, "a.*")
    channel.queue_bind(queue, exchange, "a.#")
    channel.queue_bind(queue, exchange, "a.#")
    publish(channel, "a.b", b"x", exchange=exchange)
    assert drain(channel, queue) == [b"x"]


BOTH: dict[str, Any] = {"colour": "red", "size": 3}


@pytest.mark.parametrize(
    ("match", "headers", "expected"),
    [
        ("all", {"colour": "red", "size": 3, "more": 1}, True),
        ("all", {"colour": "red"}, False),
        ("all", {"colour": "red", "size": 4}, False),
        ("any", {"colour": "blue", "size": 3}, True),
        ("any", {"colour": "blue", "size": 4}, False),
        (None, {"colour": "red", "size": 3}, True),
        (None, {"colour": "red"}, False),
    ],
)
def test_headers_match_all_or_any(
    channel: BlockingChannel, match: str | None, headers: dict[str, Any], expected: bool
) -> None:
    exchange = temporary_exchange(channel, "headers")
    queue = bound(channel, exchange, "", BOTH | ({"x-match": match} if match else {}))
    publish(channel, "", b"x", exchange=exchange, headers=headers)
    assert bool(drain(channel, queue)) is expected


@pytest.mark.parametrize("match", ["all", "any"])
def test_plain_matches_leave_x_headers_out(channel: BlockingChannel, match: str) -> None:
    exchange = temporary_exchange(channel, "headers")
    queue = bound(channel, exchange, "", {"x-match": match, "x-kind": "a", "colour": "red"})
    publish(channel, "", b"x-kind differs", exchange=exchange, headers={"x-kind": "b", "colour": "red"})
    publish(channel, "", b"only x-kind", exchange=exchange, headers={"x-kind": "a"})
    assert drain(channel, queue) == [b"x-kind differs"]


@pytest.mark.parametrize(
    ("match", "headers", "expected"),
    [
        ("all-with-x", {"x-kind": "a", "colour": "red"}, True),
        ("all-with-x", {"x-kind": "b", "colour": "red"}, False),
        ("any-with-x", {"x-kind": "a"}, True),
        ("any-with-x", {"x-kind": "b"}, False),
    ],
)
def test_matches_with_x_take_x_headers_in(
    channel: BlockingChannel, match: str, headers: dict[str, Any], expected: bool
) -> None:
    exchange = temporary_exchange(channel, "headers")
    queue = bound(channel, exchange, "", {"x-match": match, "x-kind": "a", "colour": "red"})
    publish(channel, "", b"x", exchange=exchange, headers=headers)
    assert bool(drain(channel, queue)) is expected


def test_a_header_without_a_value_matches_by_being_there(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "headers")
    queue = bound(channel, exchange, "", {"x-match": "all", "urgent": None})
    publish(channel, "", b"there", exchange=exchange, headers={"urgent": "yes"})
    publish(channel, "", b"not there", exchange=exchange, headers={"other": "yes"})
    assert drain(channel, queue) == [b"there"]


def test_an_unknown_x_match_is_refused(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "headers", auto_delete=False)
    connection = channel.connection
    with channel_closed(406, "x-match"):
        bound(channel, exchange, "", {"x-match": "most"})
    connection.channel().exchange_delete(exchange)


def test_an_exchange_bound_to_an_exchange_passes_messages_on(channel: BlockingChannel) -> None:
    source, target = temporary_exchange(channel, "topic"), temporary_exchange(channel, "direct")
    queue = bound(channel, target, "a.b")
    channel.exchange_bind(target, source, "a.*")
    for key in ("a.b", "a.c", "b.b"):
        publish(channel, key, key, exchange=source)
    received = get(channel, queue)
    assert (received.body, received.method.exchange) == (b"a.b", source)
    channel.exchange_unbind(target, source, "a.*")
    with channel_closed(404):  # source was auto-delete and lost its last binding
        publish(channel, "a.b", b"after", exchange=source)
        depth(channel, queue)


def test_exchanges_bound_in_a_circle_deliver_once(channel: BlockingChannel) -> None:
    first, second = temporary_exchange(channel, "fanout"), temporary_exchange(channel, "fanout")
    channel.exchange_bind(first, second)
    channel.exchange_bind(second, first)
    queue = bound(channel, first)
    channel.queue_bind(queue, second)
    publish(channel, "", b"once", exchange=first)
    assert drain(channel, queue) == [b"once"]
    channel.exchange_delete(first)


def test_an_internal_exchange_takes_messages_from_exchanges_only(client: Client, channel: BlockingChannel) -> None:
    source = temporary_exchange(channel, "fanout")
    internal = temporary_exchange(channel, "fanout", internal=True)
    queue = bound(channel, internal)
    channel.exchange_bind(internal, source)
    publish(channel, "", b"by the source", exchange=source)
    assert get(channel, queue).body == b"by the source"
    other = client.channel()
    with channel_closed(403, internal):
        publish(other, "", b"directly", exchange=internal)
        temporary_queue(other)


def test_an_auto_delete_exchange_goes_with_its_last_binding(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "fanout")
    queue = bound(channel, exchange, "one")
    channel.queue_bind(queue, exchange, "two")
    channel.queue_unbind(queue, exchange, "one")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_delete(queue)
    with channel_closed(404, f"'{exchange}'"):
        channel.exchange_declare(exchange, passive=True)


def test_the_alternate_exchange_gets_what_matches_nothing(channel: BlockingChannel) -> None:
    alternate = temporary_exchange(channel, "fanout")
    stray = bound(channel, alternate)
    exchange = temporary_exchange(channel, "direct", arguments={"alternate-exchange": alternate})
    home = bound(channel, exchange, "home")
    publish(channel, "home", b"home", exchange=exchange)
    publish(channel, "astray", b"astray", exchange=exchange)
    assert (drain(channel, home), drain(channel, stray)) == ([b"home"], [b"astray"])


def test_alternates_of_alternates_are_followed_and_circles_end(channel: BlockingChannel) -> None:
    first, second = unique("alternate"), unique("alternate")
    channel.exchange_declare(first, "direct", arguments={"alternate-exchange": second})
    channel.exchange_declare(second, "direct", arguments={"alternate-exchange": first})
    queue = bound(channel, second, "key")
    publish(channel, "key", b"found", exchange=first)
    publish(channel, "nowhere", b"lost", exchange=first)
    assert drain(channel, queue) == [b"found"]
    channel.exchange_delete(first)
    channel.exchange_delete(second)


def test_a_message_taken_by_the_alternate_is_not_returned(channel: BlockingChannel) -> None:
    alternate = temporary_exchange(channel, "fanout")
    bound(channel, alternate)
    exchange = temporary_exchange(channel, "direct", arguments={"alternate-exchange": alternate}, auto_delete=False)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "astray", b"x", mandatory=True)
    channel.exchange_delete(exchange)


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_carbon_copies_go_to_more_keys(channel: BlockingChannel, header: str) -> None:
    first, second, third = (temporary_queue(channel) for _ in range(3))
    publish(channel, first, b"x", headers={header: [second, third, first]})
    received = [get(channel, queue) for queue in (first, second, third)]
    assert [delivery.body for delivery in received] == [b"x"] * 3
    for delivery in received:
        assert delivery.method.routing_key == first
        assert delivery.headers == ({"CC": [second, third, first]} if header == "CC" else {})
    assert drain(channel, first) == []


def test_carbon_copies_that_are_no_list_are_refused(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    with channel_closed(406):
        publish(channel, queue, b"x", headers={"CC": "not a list"})
        depth(channel, queue)


def test_unbind_stops_the_messages_and_is_no_error_twice(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "direct", auto_delete=False)
    queue = bound(channel, exchange, "key")
    for _ in range(2):
        channel.queue_unbind(queue, exchange, "key")
    publish(channel, "key", b"x", exchange=exchange)
    assert depth(channel, queue) == 0
    channel.exchange_delete(exchange)


def test_bindings_with_different_arguments_are_different_bindings(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "headers")
    queue = bound(channel, exchange, "", {"colour": "red"})
    channel.queue_bind(queue, exchange, "", {"colour": "blue"})
    channel.queue_unbind(queue, exchange, "", {"colour": "red"})
    publish(channel, "", b"red", exchange=exchange, headers={"colour": "red"})
    publish(channel, "", b"blue", exchange=exchange, headers={"colour": "blue"})
    assert drain(channel, queue) == [b"blue"]


def test_bindings_change_routes_that_were_used_before(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "topic")
    first, second = bound(channel, exchange, "a.#"), temporary_queue(channel)
    for step in ("before", "bound", "unbound", "deleted"):
        match step:
            case "bound":
                channel.queue_bind(second, exchange, "*.b")
            case "unbound":
                channel.queue_unbind(first, exchange, "a.#")
            case "deleted":
                channel.queue_bind(first, exchange, "a.#")
                channel.queue_delete(second)
        publish(channel, "a.b", step, exchange=exchange)
        if step == "bound":
            assert drain(channel, second) == [b"bound"]
    assert drain(channel, first) == [b"before", b"bound", b"deleted"]


def test_delete_if_unused_is_refused_while_there_are_bindings(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "fanout")
    bound(channel, exchange)
    with channel_closed(406, "in use"):
        channel.exchange_delete(exchange, if_unused=True)


def test_deleting_a_missing_exchange_is_no_error(channel: BlockingChannel) -> None:
    channel.exchange_delete(unique("missing"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exchange_type": "topic"}, "'type'"),
        ({"durable": True}, "'durable'"),
        ({"auto_delete": False}, "'auto_delete'"),
        ({"internal": True}, "'internal'"),
        ({"arguments": {"alternate-exchange": "amq.fanout"}}, "'alternate-exchange'"),
    ],
)
def test_a_declare_that_differs_names_the_argument(
    channel: BlockingChannel, change: dict[str, Any], words: str
) -> None:
    exchange = temporary_exchange(channel, "direct")
    connection = channel.connection
    with channel_closed(406, "inequivalent arg", words, f"for exchange '{exchange}' in vhost '/'"):
        channel.exchange_declare(exchange, **{"exchange_type": "direct", "auto_delete": True, **change})
    connection.channel().exchange_delete(exchange)


def test_an_unknown_exchange_type_is_a_command_invalid(client: Client) -> None:
    with connection_closed(503, "'unheard-of'"):
        client.channel().exchange_declare(unique("bad"), "unheard-of")


def test_names_beginning_with_amq_are_reserved(channel: BlockingChannel) -> None:
    with channel_closed(403, "amq.mine"):
        channel.exchange_declare("amq.mine", "direct")


@pytest.mark.parametrize("act", ["declare", "delete", "bind", "unbind", "bind exchange"])
def test_the_default_exchange_cannot_be_touched(channel: BlockingChannel, act: str) -> None:
    queue = temporary_queue(channel)
    with channel_closed(403):
        match act:
            case "declare":
                channel.exchange_declare("", "direct", durable=True)
            case "delete":
                channel.exchange_delete("")
            case "bind":
                channel.queue_bind(queue, "", "key")
            case "unbind":
                channel.queue_unbind(queue, "", "key")
            case "bind exchange":
                channel.exchange_bind("amq.fanout", "", "key")


def test_a_standard_exchange_cannot_be_deleted(channel: BlockingChannel) -> None:
    with channel_closed(403, "amq.direct"):
        channel.exchange_delete("amq.direct")


@pytest.mark.parametrize("act", ["publish", "bind", "passive", "bind from", "bind to"])
def test_a_missing_exchange_is_not_found(channel: BlockingChannel, act: str) -> None:
    queue, missing = temporary_queue(channel), unique("missing")
    with channel_closed(404, f"no exchange '{missing}' in vhost '/'"):
        match act:
            case "publish":
                publish(channel, "key", b"x", exchange=missing)
                depth(channel, queue)
            case "bind":
                channel.queue_bind(queue, missing, "key")
            case "passive":
                channel.exchange_declare(missing, passive=True)
            case "bind from":
                channel.exchange_bind("amq.fanout", missing)
            case "bind to":
                channel.exchange_bind(missing, "amq.fanout")


def test_a_fanout_reaches_consumers_on_many_connections(client: Client, channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "fanout")
    listeners = [client.channel() for _ in range(5)]
    inboxes = [consume(listener, bound(listener, exchange), auto_ack=True) for listener in listeners]
    for number in range(10):
        publish(channel, "", str(number), exchange=exchange)
    for listener, inbox in zip(listeners, inboxes, strict=True):
        arrive(listener, inbox, 10)
        assert bodies(inbox) == [str(number).encode() for number in range(10)]


def test_mandatory_publishes_to_nowhere_come_back(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "direct", auto_delete=False)
    returned: list[Any] = []
    channel.add_on_return_callback(lambda _, method, properties, body: returned.append((method, properties, body)))
    properties = pika.BasicProperties(message_id="m", headers={"h": 1})
    channel.basic_publish(exchange, "nowhere", b"come back", properties, mandatory=True)
    channel.basic_publish(exchange, "nowhere", b"lost", properties)
    pump(channel, lambda: returned)
    ((method, properties, body),) = returned
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key, body) == (exchange, "nowhere", b"come back")
    assert (properties.message_id, properties.headers) == ("m", {"h": 1})
    channel.exchange_delete(exchange)
