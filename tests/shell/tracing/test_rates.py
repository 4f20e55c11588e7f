"""Rates: what went through since the last look."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from openclust.cluster.membership.membership import Membership
from openclust.shell.tracing.rates import Rates


def membership(**broker: Any) -> Any:
    channel = SimpleNamespace(delivery_tag=10)
    connection = SimpleNamespace(channels={1: channel})
    held = SimpleNamespace(published=0, delivered=5, connections=[connection])
    return SimpleNamespace(
        broker=held, links=SimpleNamespace(outboxes={"p2": SimpleNamespace(relayed=0)}), channel=channel
    )


def test_there_are_no_rates_before_the_second_look() -> None:
    rates = Rates(cast(Membership, membership()))
    rates.look(1_000)
    assert rates.shown() is None


def test_a_rate_is_what_came_since_the_last_look() -> None:
    seen = membership()
    rates = Rates(cast(Membership, seen))
    rates.look(1_000)
    seen.broker.published, seen.links.outboxes["p2"].relayed = 500, 50
    seen.channel.delivery_tag += 1_000
    rates.look(6_000)
    assert rates.shown() == {"published_per_s": 100, "delivered_per_s": 200, "relayed_per_s": 10}


def test_a_closed_channel_takes_nothing_away() -> None:
    seen = membership()
    rates = Rates(cast(Membership, seen))
    rates.look(1_000)
    seen.broker.delivered += 10
    seen.broker.connections.clear()
    rates.look(6_000)
    shown = rates.shown()
    assert shown is not None and shown["delivered_per_s"] == 0
