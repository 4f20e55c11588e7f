from __future__ import annotations

from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.comparison import Contender
from openclust.bench.load.work import Figures
from openclust.bench.report.round_summary import Summary, summarize
from openclust.bench.rows.replicated import published_and_consumed_at_backups, rows_of


def test_away_from_home_none_of_the_three_does_two_things() -> None:
    home, publishing, consuming = BrokerUrl("a"), BrokerUrl("b"), BrokerUrl("c")
    found = published_and_consumed_at_backups(Contender(name="x", url=home), [home, publishing, consuming])
    assert (found.declared_at, found.url, found.subscribers_at) == (home, publishing, (consuming,))


def summary(name: str, messages: int) -> Summary:
    figures = Figures(messages=messages, deliveries=messages, elapsed_s=1.0, broker_cpu_s=1.0)
    return summarize(Contender(name=name, url=BrokerUrl("h")), [figures])


def test_targets_are_for_other_products_and_not_for_other_versions() -> None:
    found = [summary("openclust", 300), summary("before", 290), summary("rabbitmq", 100)]
    rows = rows_of("k", "work", found, 1, (2.0, 4.0))
    assert [(row.key, row.title.rsplit(" ", 1)[1], row.target, row.met) for row in rows] == [
        ("k", "before", None, None),
        ("k", "rabbitmq", 2.0, True),
        ("k-cpu", "before", None, None),
        ("k-cpu", "rabbitmq", 4.0, False),
    ]


def test_alone_there_is_one_row() -> None:
    assert [row.key for row in rows_of("k", "work", [summary("openclust", 300)], 0, (2.0, 4.0))] == ["k"]
