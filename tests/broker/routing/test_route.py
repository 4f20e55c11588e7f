"""Where a message goes: through exchanges that are bound to each other, to each target once."""

from __future__ import annotations

from openclust.broker.model.changes import Bind, DeclareExchange
from openclust.broker.routing.exchange import Targets
from openclust.broker.routing.remote_broker import RemoteBroker
from openclust.broker.routing.route import Route, find_targets
from openclust.broker.server.broker import Broker
from openclust.broker.server.vhost import VirtualHost
from tests.support.client import Client


def _exchange(vhost: VirtualHost, name: str, type: str = "fanout", **arguments: str) -> None:
    vhost.declare_exchange(DeclareExchange(vhost="/", name=name, type=type, arguments={**arguments}))


def _bind(vhost: VirtualHost, source: str, destination: str) -> None:
    to_exchange = destination in vhost.exchanges
    vhost.bind(Bind(vhost="/", source=source, destination=destination, to_exchange=to_exchange))


def _find(vhost: VirtualHost, exchange: str, key: str = "") -> Targets:
    return find_targets(vhost, vhost.exchanges[exchange], (key,))


def test_exchanges_that_are_bound_in_a_circle_name_each_queue_once(broker: Broker, alice: Client) -> None:
    vhost = broker.vhosts["/"]
    alice.queue("q")
    for name in ("one", "two"):
        _exchange(vhost, name)
        _bind(vhost, name, "q")
    _bind(vhost, "one", "two")
    _bind(vhost, "two", "one")
    assert list(_find(vhost, "one").destinations) == [vhost.queues["q"]]


def test_an_alternate_exchange_gets_only_what_nothing_else_matches(broker: Broker, alice: Client) -> None:
    vhost = broker.vhosts["/"]
    alice.queue("lost")
    alice.queue("found")
    _exchange(vhost, "rest")
    _exchange(vhost, "main", "direct", **{"alternate-exchange": "rest"})
    _bind(vhost, "rest", "lost")
    _bind(vhost, "main", "found")
    assert [each.name for each in _find(vhost, "main").destinations] == ["found"]
    assert [each.name for each in _find(vhost, "main", "no such key").destinations] == ["lost"]


def test_other_brokers_are_named_beside_the_queues(broker: Broker, alice: Client) -> None:
    vhost = broker.vhosts["/"]
    alice.queue("q")
    _bind(vhost, "amq.fanout", "q")
    vhost.exchanges["amq.fanout"].bind_remote(RemoteBroker("s1"), "", {})
    targets = _find(vhost, "amq.fanout")
    assert list(targets.destinations) == [vhost.queues["q"]] and list(targets.brokers) == ["s1"]


def test_only_a_headers_exchange_on_the_way_lets_the_headers_decide(broker: Broker) -> None:
    vhost = broker.vhosts["/"]
    _exchange(vhost, "entry")
    assert not _find(vhost, "entry").by_headers
    _bind(vhost, "entry", "amq.headers")
    assert _find(vhost, "entry").by_headers


def test_a_plain_route_has_destinations_and_needs_no_root(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    queue = broker.vhosts["/"].queues["q"]
    assert Route("", "q", [queue]).is_plain
    assert not Route("", "q", []).is_plain
    assert not Route("", "q", [queue], forward=True).is_plain
