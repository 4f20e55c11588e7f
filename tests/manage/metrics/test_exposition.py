"""Metrics as text, in each format."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from openclust.broker.counts.histogram import Histogram
from openclust.manage.metrics.exposition import SAMPLES_A_PIECE, Exposition, Scraped, SeriesBudget
from openclust.manage.metrics.metric import Metric

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
MANY = SAMPLES_A_PIECE * 2 + 1


def sizes() -> Histogram:
    histogram = Histogram((10, 100))
    for size in (1, 10, 11, 1_000):
        histogram.add(size)
    return histogram


METRICS: tuple[Metric[None], ...] = (
    Metric("a_total", "counter", "Things", "here", lambda _: [((), 3)]),
    Metric("b", "gauge", "Of each", "here", lambda _: [((str(at),), at) for at in range(MANY)], ("name",)),
    Metric("c_bytes", "histogram", "Sizes", "here", lambda _: [((), sizes())]),
    Metric("d_info", "info", "Facts", "here", lambda _: [(('x"y\n',), 1)], ("fact",)),
    Metric("e", "gauge", "Nothing", "here", lambda _: ()),
)


def scraped(
    metrics: Sequence[Metric[Any]] = METRICS, accept: str = "", encoding: str = "", budget: SeriesBudget | None = None
) -> Scraped:
    async def scrape() -> Scraped:
        exposition = Exposition(accept, encoding)
        await exposition.add(metrics, None, budget)
        return await exposition.scraped()

    return asyncio.run(scrape())


def values(families: Any) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(s.name, tuple(s.labels.values())): s.value for family in families for s in family.samples}


def test_both_formats_have_the_same_values() -> None:
    plain, openmetrics = scraped(), scraped(accept=OPENMETRICS)
    assert plain.content_type.startswith("text/plain") and openmetrics.content_type.startswith(OPENMETRICS)
    found = values(text_string_to_metric_families(plain.body.decode()))
    assert found == values(openmetrics_families(openmetrics.body.decode()))
    assert found["a_total", ()] == 3 and found["d_info", ('x"y\n',)] == 1


def test_a_long_family_that_is_made_in_pieces_has_one_header_and_all_samples() -> None:
    lines = scraped().body.decode().splitlines()
    assert lines.count("# TYPE b gauge") == 1
    assert [line for line in lines if line.startswith("b{")] == [f'b{{name="{at}"}} {at}.0' for at in range(MANY)]


def test_a_histogram_counts_up_to_each_bound() -> None:
    found = values(text_string_to_metric_families(scraped().body.decode()))
    assert [found["c_bytes_bucket", (le,)] for le in ("10.0", "100.0", "+Inf")] == [2, 3, 4]
    assert (found["c_bytes_count", ()], found["c_bytes_sum", ()]) == (4, 1_022)


def test_a_metric_without_a_value_is_not_named() -> None:
    assert b"# TYPE e" not in scraped().body


def test_series_beyond_the_budget_are_counted() -> None:
    budget = SeriesBudget(150)
    lines = scraped(METRICS[1:2], budget=budget).body.decode().splitlines()
    assert len([line for line in lines if line.startswith("b{")]) == 150
    assert budget.cut == MANY - 150


def test_it_is_compressed_where_the_caller_takes_that() -> None:
    packed = scraped(encoding="deflate, gzip;q=0.5")
    assert packed.is_gzipped and gzip.decompress(packed.body) == scraped().body
    assert not scraped(encoding="deflate").is_gzipped
