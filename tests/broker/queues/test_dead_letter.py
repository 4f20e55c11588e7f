"""Dead letters: where they go, and what their headers tell of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openclust.broker.model.message import counted_header
from openclust.broker.routing.destination import Destination
from openclust.broker.routing.exchange import Targets
from openclust.broker.routing.remote_broker import RemoteBroker
from openclust.broker.routing.route import ExchangeHost
from openclust.broker.server import broker as broker_module
from openclust.broker.server.broker import Broker
from openclust.broker.server.standalone import Standalone
from openclust.wire.codec import method_frame
from openclust.wire.frames import FRAME_HEADER, frame
from openclust.wire.methods import BasicPublish, QueueDelete, QueueDeleteOk
from openclust.wire.properties import Properties, encode_header, header_fields
from openclust.wire.table import Fields, Table, Timestamp, split_array, split_table
from tests.support.client import Client, Delivery, publish_frames
from tests.support.driver import later

NewBroker = Callable[..., Broker]


def _deaths(delivery: Delivery | None) -> list[Any]:
    assert delivery is not None
    deaths = delivery.headers["x-death"]
    assert isinstance(deaths, list)
    return deaths


class _Recording(Standalone):
    """Remembers for which other brokers messages were."""

    brokers: list[str]

    def reach(self, vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
        self.brokers = list(targets.brokers)
        return super().reach(vhost, targets)


def test_a_dead_letter_reaches_a_broker_that_is_called_as_its_queue(broker: Broker, alice: Client) -> None:
    broker.cluster = cluster = _Recording(broker)
    alice.queue("work", x_dead_letter_exchange="amq.fanout", x_message_ttl=0)
    broker.vhosts["/"].exchanges["amq.fanout"].bind_remote(RemoteBroker("work"), "", {})
    alice.publish("work", b"body")
    assert cluster.brokers == ["work"]


def test_a_dead_letter_tells_how_it_died(alice: Client) -> None:
    alice.broker.set_clock(alice.broker.now_ms, 1_700_000_000_000)
    alice.queue("dead")
    alice.bind("dead", "amq.fanout")
    alice.queue("q", x_dead_letter_exchange="amq.fanout")
    alice.bind("q", "amq.topic", "a.*")
    alice.publish("a.b", b"body", exchange="amq.topic", expiration="10", message_id="m", headers={"mine": 1})
    later(alice.broker, 10)
    dead = alice.get("dead")
    assert dead is not None
    assert (dead.body, dead.properties.message_id, dead.properties.expiration) == (b"body", "m", None)
    (death,) = _deaths(dead)
    assert death == {
        "count": 1,
        "reason": "expired",
        "queue": "q",
        "time": Timestamp(1_700_000_000),
        "exchange": "amq.topic",
        "routing-keys": ["a.b"],
        "original-expiration": "10",
    }
    assert isinstance(death["time"], Timestamp)
    first = {name: value for name, value in dead.headers.items() if name.startswith("x-first-death-")}
    assert first == {
        "x-first-death-reason": "expired",
        "x-first-death-queue": "q",
        "x-first-death-exchange": "amq.topic",
    }
    assert dead.headers["mine"] == 1
    assert (dead.method.exchange, dead.method.routing_key) == ("amq.fanout", "a.b")


def waiting_fields(alice: Client, queue: str) -> Fields:
    """The headers of the message at a queue's head, as they would be written."""
    entry = alice.broker.vhosts["/"].queues[queue].backlog.peek()
    assert entry is not None
    return header_fields(entry.message.header)


def test_what_the_broker_writes_into_a_dead_letter_has_rabbitmqs_types(alice: Client) -> None:
    """Clients with static types cast a count to 64 bits, and fail where it is 32."""
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    alice.publish("q", expiration="0")
    fields = waiting_fields(alice, "dead")
    (death,) = split_array(fields.pop("x-death"))
    assert {name: value[:1] for name, value in split_table(death[1:]).items()} == {
        "count": b"l",
        "reason": b"S",
        "queue": b"S",
        "time": b"T",
        "exchange": b"S",
        "routing-keys": b"A",
        "original-expiration": b"S",
    }
    assert death[:1] == b"F" and {value[:1] for value in fields.values()} == {b"S"}


def every_type() -> Fields:
    """One header of each type that there is."""
    numbers = (b"b\5", b"B\xc8", b"s\0\6", b"u\xea\x60", b"I\0\0\0\7", b"i\xff\0\0\0", b"l" + b"\0" * 8)
    more = (b"t\1", b"V", b"L" + b"\0" * 8, b"f\x3f\xc0\0\0", b"d" + b"\0" * 8, b"D\1\0\0\0\x0f", b"T" + b"\0" * 8)
    sized = (b"x\0\0\0\1z", b"S\0\0\0\1s", b"A\0\0\0\2b\1", b"F\0\0\0\4\1ab\1")
    return {value[:1].decode(): value for value in (*numbers, *more, *sized)}


def publish_fields(alice: Client, queue: str, fields: Fields, **properties: str) -> None:
    header = encode_header(Properties(**properties), 0, fields)
    alice.feed(method_frame(1, BasicPublish(routing_key=queue)) + frame(FRAME_HEADER, 1, header))


def test_the_publishers_headers_keep_their_types_in_a_dead_letter(alice: Client) -> None:
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=0)
    publish_fields(alice, "q", every_type())
    fields = waiting_fields(alice, "dead")
    assert {name: fields[name] for name in every_type()} == every_type()


def test_the_publishers_headers_keep_their_types_where_the_broker_takes_one_out_or_adds_one(alice: Client) -> None:
    alice.queue("q", durable=True, x_queue_type="quorum")
    publish_fields(alice, "q", {**every_type(), "BCC": b"A\0\0\0\6S\0\0\0\1c"})
    assert waiting_fields(alice, "q") == every_type()
    got = alice.get("q", no_ack=False)
    assert got is not None
    alice.nack(got.tag)
    entry = alice.broker.vhosts["/"].queues["q"].backlog.peek()
    assert entry is not None
    fields = header_fields(counted_header(entry.message, 1))
    assert fields.pop("x-delivery-count") == b"l\0\0\0\0\0\0\0\1"
    assert fields == every_type()


def test_several_old_deaths_of_one_queue_and_reason_are_folded_into_the_first(alice: Client) -> None:
    """As clients send them that copy all headers and append to them."""

    def death(queue: str, reason: str, **more: int) -> Table:
        return {"queue": queue, "reason": reason, **more}

    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=0)
    deaths = [death("a", "expired", count=3), death("q", "expired", count=2), death("a", "expired", count=1)]
    deaths += [death("b", "rejected"), death("b", "rejected"), death("q", "expired", count=7)]
    deaths += [death("a", "rejected", count=1)]
    headers: Table = {"x-death": [*deaths]}
    alice.publish("q", headers=headers)
    dead = alice.get("dead")
    assert _deaths(dead) == [
        death("q", "expired", count=3),
        death("a", "expired", count=3),
        death("b", "rejected", count=2),
        death("a", "rejected", count=1),
    ]
    assert dead is not None and "x-first-death-queue" not in dead.headers, "this death was not its first"


def test_a_history_that_is_no_list_is_replaced(alice: Client) -> None:
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=0)
    alice.publish("q", headers={"x-death": "text"})
    assert [(each["queue"], each["count"]) for each in _deaths(alice.get("dead"))] == [("q", 1)]


def test_a_routing_key_of_its_own_replaces_the_messages(alice: Client) -> None:
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=0)
    alice.publish("q", headers={"CC": ["elsewhere"]})
    dead = alice.get("dead")
    assert dead is not None
    assert dead.method.routing_key == "dead"
    assert "CC" not in dead.headers
    assert _deaths(dead)[0]["routing-keys"] == ["q", "elsewhere"]


def test_without_one_the_copies_count_again(alice: Client) -> None:
    alice.queue("dead")
    alice.bind("dead", "amq.direct", "copy")
    alice.queue("q", x_dead_letter_exchange="amq.direct", x_message_ttl=0)
    alice.publish("q", headers={"CC": ["copy"]})
    assert alice.count("dead") == 1


def test_the_newest_death_comes_first_and_equal_ones_are_counted(alice: Client) -> None:
    """A message that goes round between two queues by a consumer's rejections."""
    alice.queue("work", x_dead_letter_exchange="", x_dead_letter_routing_key="wait")
    alice.queue("wait", x_dead_letter_exchange="", x_dead_letter_routing_key="work", x_message_ttl=10)
    alice.publish("work")
    for _ in range(3):
        got = alice.get("work", no_ack=False)
        assert got is not None
        alice.nack(got.tag, requeue=False)
        later(alice.broker, 10)
    got = alice.get("work")
    assert [(death["queue"], death["reason"], death["count"]) for death in _deaths(got)] == [
        ("wait", "expired", 3),
        ("work", "rejected", 3),
    ]
    assert got is not None and got.headers["x-first-death-queue"] == "work"


def test_a_message_that_dies_in_a_circle_is_dropped(alice: Client) -> None:
    alice.queue("one", x_dead_letter_exchange="", x_dead_letter_routing_key="two", x_message_ttl=10)
    alice.queue("two", x_dead_letter_exchange="", x_dead_letter_routing_key="one", x_message_ttl=10)
    alice.publish("one")
    later(alice.broker, 10)
    assert (alice.count("one"), alice.count("two")) == (0, 1)
    later(alice.broker, 10)
    assert (alice.count("one"), alice.count("two")) == (0, 0)
    assert alice.broker.memory_accounts.held_bytes == 0


def test_a_queue_that_is_its_own_dead_letter_queue_does_not_spin(alice: Client) -> None:
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="q", x_max_length=0)
    alice.publish("q")
    assert alice.count("q") == 0


def test_without_its_exchange_a_dead_letter_is_gone(alice: Client) -> None:
    alice.queue("q", x_dead_letter_exchange="nowhere", x_message_ttl=0)
    alice.publish("q")
    assert alice.broker.memory_accounts.held_bytes == 0


def test_a_rejected_message_is_a_dead_letter_and_an_acknowledged_one_is_none(alice: Client) -> None:
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    alice.consume("q")
    for _ in range(4):
        alice.publish("q")
    alice.ack(1)
    alice.nack(3, multiple=True, requeue=False)
    assert alice.count("dead") == 2
    assert _deaths(alice.get("dead"))[0]["reason"] == "rejected"


def test_a_purged_or_deleted_queue_makes_no_dead_letters(alice: Client) -> None:
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=10)
    alice.publish("q")
    alice.call(QueueDelete(queue="q"), QueueDeleteOk)
    later(alice.broker, 100)
    assert alice.count("dead") == 0


FORGED: list[Any] = [
    "text",
    [1, "a", None],
    [{"queue": "q", "reason": "expired", "count": 2**63 - 1}],
    [{"queue": "q", "reason": "expired", "count": "many"}],
    [{"queue": ["q"], "reason": 1}],
    [{}],
]


@pytest.mark.parametrize("deaths", FORGED)
def test_a_forged_history_harms_nobody(alice: Client, deaths: Any) -> None:
    """What the publisher wrote into x-death itself is not ours to trust."""
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=10)
    headers: Table = {"x-death": deaths}
    alice.publish("q", b"forged", headers=headers)
    alice.publish("q", b"honest")
    later(alice.broker, 10)
    got = [alice.get("dead"), alice.get("dead")]
    assert [each.body for each in got if each] == [b"forged", b"honest"]
    assert _deaths(got[0])[0]["reason"] == "expired"


def test_a_turn_does_a_bounded_number_of_dead_letters(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues that overflow into each other multiply a message: others have their turns meanwhile."""
    monkeypatch.setattr(broker_module, "LETTERS_PER_TURN_MAX", 10)
    names = [f"q{number}" for number in range(4)]
    for name in names:
        alice.queue(name, x_dead_letter_exchange="amq.fanout", x_max_length=0)
    for name in names:
        alice.bind(name, "amq.fanout")
    alice.connection.receive(publish_frames("", exchange="amq.fanout"))
    turns = 0
    while alice.broker.dead_letters:
        before = len(alice.broker.dead_letters)
        alice.broker.settle()
        turns += 1
        assert len(alice.broker.dead_letters) <= before - min(before, 10) + 10 * len(names)
    # Every order in which it can pass the four: 4 + 12 + 24 + 24 letters.
    assert turns == 7
    assert alice.broker.memory_accounts.held_bytes == 0
