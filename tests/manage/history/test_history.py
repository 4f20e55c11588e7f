"""The history: counts and rates of all objects, and samples of some."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openclust.broker.journal.journal import Journal
from openclust.broker.server.broker import Broker
from openclust.manage.gather.ages import Ages, ages, ages_of
from openclust.manage.gather.selection import BadSelection
from openclust.manage.history import history as history_module
from openclust.manage.history.history import History
from openclust.manage.history.series import SAMPLES_MAX, Series
from openclust.manage.history.shown import ShownHistory
from openclust.manage.history.stats import finished
from openclust.wire.methods import ChannelClose, ChannelCloseOk, ExchangeDeclare, ExchangeDeclareOk
from tests.support.client import Client, new_broker

START_MS = 1_700_000_000_000


class Watched:
    """A broker whose history is looked at every five seconds of its own time."""

    def __init__(self) -> None:
        self.broker: Broker = new_broker()
        self.client = Client(self.broker)
        self.now_ms = START_MS
        self.octets = (0, 0)
        self.history = History(self.broker, lambda: self.now_ms, lambda _: self.octets)
        self.shown = ShownHistory(self.history)
        self.look()

    def look(self) -> None:
        self.now_ms += 5_000
        asyncio.run(self.history.look())

    def publish(self, count: int, queue: str = "q") -> None:
        for _ in range(count):
            self.client.publish(queue, b"one")

    def overview(self) -> dict[str, Any]:
        return self.shown.of_overview(self.broker.vhosts.values(), sees_all=True)

    def queue(self, name: str = "q") -> dict[str, Any]:
        return self.shown.of_queue(self.broker.vhosts["/"].queues[name])


@pytest.fixture
def watched() -> Watched:
    watched = Watched()
    watched.client.queue("q")
    return watched


def test_a_rate_is_what_came_in_a_second_since_the_last_look(watched: Watched) -> None:
    watched.publish(10)
    watched.look()
    found = watched.queue()
    assert found["message_stats"]["publish"] == 10
    assert found["message_stats"]["publish_details"] == {"rate": 2.0}
    assert found["messages_details"] == {"rate": 2.0}
    watched.look()
    assert watched.queue()["message_stats"]["publish_details"] == {"rate": 0.0}


def test_a_queue_that_nothing_has_passed_has_lengths_only(watched: Watched) -> None:
    watched.look()
    assert watched.queue() == {
        f"{name}_details": {"rate": 0.0} for name in ("messages", "messages_ready", "messages_unacknowledged")
    }


def test_channels_virtual_hosts_and_brokers_count_the_same_messages(watched: Watched) -> None:
    watched.publish(10)
    watched.look()
    channel = watched.client.connection.channels[1]
    of_channel = watched.shown.of_channel(channel)["message_stats"]
    assert of_channel["publish"] == 10 and of_channel["publish_details"]["rate"] == 2
    of_vhost = watched.shown.of_vhost(watched.broker.vhosts["/"])
    of_broker = watched.overview()["message_stats"]
    assert of_vhost["message_stats"] == of_channel == {name: of_broker[name] for name in of_channel}
    of_one = watched.shown.of_overview([watched.broker.vhosts["/"]], sees_all=False)
    assert of_one["message_stats"] == of_channel and "churn_rates" not in of_one
    assert of_vhost["messages"] == 10


def test_a_channel_that_closes_takes_nothing_from_the_totals(watched: Watched) -> None:
    watched.publish(10)
    watched.look()
    watched.publish(10)
    watched.client.call(ChannelClose(), ChannelCloseOk)
    watched.look()
    assert watched.overview()["message_stats"]["publish"] == 20
    assert watched.overview()["message_stats"]["publish_details"]["rate"] == 2
    assert not watched.history.channels.newest


def test_exchanges_count_what_comes_in_and_what_queues_get(watched: Watched) -> None:
    client = watched.client
    client.call(ExchangeDeclare(exchange="all", type="fanout"), ExchangeDeclareOk)
    for name in ("one", "two"):
        client.queue(name)
        client.bind(name, "all")
    client.publish("", b"one", exchange="all")
    watched.look()
    found = watched.shown.of_exchange(watched.broker.vhosts["/"].exchanges["all"])["message_stats"]
    assert (found["publish_in"], found["publish_out"]) == (1, 2)


def test_what_comes_and_goes_has_rates(watched: Watched) -> None:
    watched.look()
    for name in ("one", "two", "three", "four", "five"):
        watched.client.queue(name)
    watched.look()
    assert watched.overview()["churn_rates"]["queue_created_details"]["rate"] == 1
    assert watched.shown.of_node()["queue_declared_details"] == {"rate": 1.0}


def test_the_bytes_of_a_closed_connection_stay_with_its_virtual_host(watched: Watched) -> None:
    watched.octets = (1_000, 100)
    watched.look()
    assert watched.shown.of_connection(watched.client.connection)["recv_oct_details"]["rate"] == 200
    watched.client.close()
    watched.look()
    of_vhost = watched.shown.of_vhost(watched.broker.vhosts["/"])
    assert (of_vhost["recv_oct"], of_vhost["send_oct"]) == (1_000, 100)


def test_a_deleted_queue_is_forgotten(watched: Watched) -> None:
    watched.publish(1)
    watched.look()
    watched.broker.vhosts["/"].delete_queue("q")
    watched.look()
    assert not watched.history.queues.newest and not watched.history.queues.series


def test_samples_go_back_as_far_as_the_caller_wants(watched: Watched) -> None:
    for _ in range(4):
        watched.publish(5)
        watched.look()
    ages.set(Ages(lengths=(10, 5), msg_rates=(15, 5)))
    found = watched.queue()
    details = found["message_stats"]["publish_details"]
    assert [each["sample"] for each in details["samples"]] == [20, 15, 10, 5]
    first, last = details["samples"][-1]["timestamp"], details["samples"][0]["timestamp"]
    assert last - first == 15_000
    assert details["avg"] == 12.5 and details["avg_rate"] == 1
    assert [each["sample"] for each in found["messages_details"]["samples"]] == [20, 15, 10]
    ages.set(Ages())


def test_with_more_queues_than_series_the_active_ones_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "SERIES_MAX", 3)
    watched = Watched()
    for number in range(6):
        watched.client.queue(f"q{number}")
        watched.publish(1, f"q{number}")
    watched.look()
    watched.look()
    watched.publish(1, "q4")
    watched.publish(1, "q5")
    watched.look()
    names = {queue.name for queue in watched.history.queues.series}
    assert len(names) == 3 and names >= {"q4", "q5"}


def test_a_series_keeps_its_last_samples_only() -> None:
    series = Series(2)
    for number in range(1, 3 * SAMPLES_MAX):
        series.add(number * 5_000, (number, -number))
    last_ms = (3 * SAMPLES_MAX - 1) * 5_000
    found = series.samples(1, [last_ms - each * 5_000 for each in range(2 * SAMPLES_MAX)])
    assert len(found) == SAMPLES_MAX
    assert found[last_ms] == 1 - 3 * SAMPLES_MAX and found[last_ms - 5_000] == 2 - 3 * SAMPLES_MAX


def test_a_moment_between_samples_has_the_one_before() -> None:
    series = Series(1)
    series.add(5_000, (7,))
    series.add(10_000, (8,))
    assert series.samples(0, [12_000, 9_999, 5_000, 4_999]) == {12_000: 8, 9_999: 7, 5_000: 7}


def test_samples_are_listed_the_latest_first() -> None:
    assert finished({"samples": {"9": 1, "10": 2}}) == {
        "samples": [{"sample": 2, "timestamp": 10}, {"sample": 1, "timestamp": 9}]
    }


def test_ages_need_a_step() -> None:
    assert ages_of({"lengths_age": "60", "lengths_incr": "5", "msg_rates_age": "60"}) == Ages(lengths=(60, 5))


@pytest.mark.parametrize(
    "query", [{"lengths_age": "x", "lengths_incr": "5"}, {"data_rates_age": "86400", "data_rates_incr": "1"}]
)
def test_ages_are_bounded_numbers(query: dict[str, str]) -> None:
    with pytest.raises(BadSelection):
        ages_of(query)


def test_a_rate_can_be_ordered_by_without_the_row(watched: Watched) -> None:
    watched.client.queue("idle")
    watched.publish(10)
    watched.look()
    rate = watched.shown.queue_values()["message_stats.publish_details.rate"]
    queues = watched.broker.vhosts["/"].queues
    assert [rate(queues[name]) for name in ("q", "idle")] == [2, 0]
    assert watched.shown.queue_values()["message_stats.publish"](queues["q"]) == 10


def test_messages_on_their_way_to_the_disk_are_counted() -> None:
    journal = Journal(has_disk=True)
    broker = new_broker(journal=journal)
    client = Client(broker)
    client.queue("q", durable=True)
    for number in range(3):
        client.publish("q", b"%d" % number, delivery_mode=2)
    client.get("q", no_ack=True)
    journal.seal(0)
    assert journal.stored == 2
