"""The headers CC and BCC name further routing keys, and consumers do not see the second."""

from __future__ import annotations

import pytest

from openclust.broker.model.message import Message
from openclust.broker.routing.carbon_copies import copy_keys, hide_blind_copies, route_again
from openclust.broker.routing.destination import Destination
from openclust.broker.routing.exchange import Targets
from openclust.broker.routing.route import Route
from openclust.broker.server.broker import Broker
from openclust.wire.errors import ChannelError
from openclust.wire.properties import Properties, decode_properties, encode_header
from openclust.wire.table import Table
from tests.support.client import Client


class OtherBrokers(Destination):
    """Keeps the headers of what it is given."""

    name = "others"
    is_remote = True

    def __init__(self) -> None:
        self.seen: list[Table | None] = []

    def publish(self, message: Message) -> int:
        self.seen.append(decode_properties(message.header).headers)
        return 0


def test_a_message_without_these_headers_names_no_keys() -> None:
    assert copy_keys(None) is None and copy_keys({"other": 1}) is None
    assert copy_keys({"CC": []}) == []
    assert copy_keys({"BCC": ["b"], "CC": ["a"]}) == ["a", "b"]


@pytest.mark.parametrize("keys", ["a", 1, ["a", 1], {"a": 1}])
def test_what_is_no_list_of_keys_is_an_error_of_the_channel(keys: object) -> None:
    with pytest.raises(ChannelError, match="invalid header 'CC'"):
        copy_keys({"CC": keys})  # type: ignore[dict-item]


def test_other_brokers_get_the_blind_copies_that_consumers_do_not(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    others = OtherBrokers()
    properties = Properties(headers={"BCC": ["q"], "kept": 1})
    header = encode_header(properties, 1)
    route = Route("", "q", [broker.vhosts["/"].queues["q"], others])
    shown, hidden = hide_blind_copies(route, properties, header, 1)
    for each in route.destinations:
        each.publish(Message("", "q", hidden, b"x", route.suffix))
    assert shown.headers == decode_properties(hidden).headers == {"kept": 1}
    assert others.seen == [{"BCC": ["q"], "kept": 1}]
    delivery = alice.get("q")
    assert delivery is not None and delivery.headers == {"kept": 1}


def test_a_message_is_routed_again_by_all_its_keys(broker: Broker, alice: Client) -> None:
    for name in ("to", "copy", "blind"):
        alice.queue(name)
    vhost = broker.vhosts["/"]
    header = encode_header(Properties(headers={"CC": ["copy"], "BCC": ["blind"]}), 1)

    def reach(vhost: object, targets: Targets) -> tuple[list[Destination], bool]:
        return list(targets.destinations), False

    route, hidden = route_again(vhost, vhost.exchanges[""], "to", header, 1, reach)
    assert [each.name for each in route.destinations] == ["to", "copy", "blind"]
    assert decode_properties(hidden).headers == {"CC": ["copy"]}
