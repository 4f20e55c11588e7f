"""One message to all destinations of its route: what it counts, and what becomes of it."""

from __future__ import annotations

from openclust.broker.delivery.fanout import fan_out
from openclust.broker.model.message import Message, delivery_suffix
from openclust.broker.model.outcome import REFUSED
from openclust.broker.queues.dead_letter import redirect_dead
from openclust.broker.routing.route import Route
from openclust.broker.server.broker import Broker
from openclust.wire.properties import Properties, encode_header
from tests.support.client import Client

HEADER = encode_header(Properties(), 5)


def test_a_message_that_one_of_its_queues_refuses_is_refused(broker: Broker, alice: Client) -> None:
    alice.queue("small", x_max_length=0, x_overflow="reject-publish")
    alice.queue("large")
    queues = broker.vhosts["/"].queues
    assert fan_out(broker, Route("", "", [queues["small"], queues["large"]]), HEADER, b"12345") == REFUSED
    assert fan_out(broker, Route("", "", [queues["large"]]), HEADER, b"12345") == 0
    assert len(queues["small"]) == 0 and len(queues["large"]) == 2


def test_dead_letters_count_among_the_bytes_of_a_turn(broker: Broker, alice: Client) -> None:
    alice.queue("grave")
    alice.queue("work", x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    before = broker.turn_bytes
    message = Message("", "work", HEADER, b"12345", delivery_suffix("", "work"))
    redirect_dead(broker, broker.vhosts["/"].queues["work"], message, "rejected")
    assert broker.turn_bytes == before + len(b"12345") + 200
