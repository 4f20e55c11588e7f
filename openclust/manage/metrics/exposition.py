"""Metrics as text for Prometheus, in the format that is asked for, made in slices, with room for others in between."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf
from typing import Any, NamedTuple, TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector

from openclust.broker.counts.histogram import Histogram
from openclust.manage.gather.slices import Slices
from openclust.manage.metrics.metric import Metric, Value

SAMPLES_A_PIECE = 100
GZIP_IN_THREAD_BYTES = 65_536
"""Shorter texts are compressed in less than a slice."""

_EOF = b"# EOF\n"

Encode: TypeAlias = Callable[[Collector], bytes]


class Scraped(NamedTuple):
    """The answer to a scrape."""

    body: bytes
    content_type: str
    is_gzipped: bool


class SeriesBudget:
    """How many series an answer may still have; `cut` counts those that were left out."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.cut = 0

    def take(self) -> bool:
        """Whether there is room for one more."""
        if self.left:
            self.left -= 1
            return True
        self.cut += 1
        return False


class Exposition:
    """Add metrics with the source of their values, then take the answer."""

    def __init__(self, accept: str, accept_encoding: str) -> None:
        self._encode: Encode
        self._encode, self._content_type = choose_encoder(accept)
        self._is_gzipped = gzip_accepted(accept_encoding)
        self._pieces: list[bytes] = []
        self._slices = Slices()

    async def add(self, metrics: Iterable[Metric[Any]], source: Any, budget: SeriesBudget | None = None) -> None:
        """All values of these metrics. Series beyond the budget are left out, and counted there."""
        for metric in metrics:
            samples = iter(metric.read(source))
            has_header = False
            while piece := list(islice(samples, SAMPLES_A_PIECE)):
                wanted = piece if budget is None else [each for each in piece if budget.take()]
                if wanted:
                    text = self._encode(_One(_family(metric, wanted))).removesuffix(_EOF)
                    self._pieces.append(_without_header(text) if has_header else text)
                    has_header = True
                await self._slices.rest()

    async def scraped(self) -> Scraped:
        if self._content_type.startswith("application/openmetrics-text"):
            self._pieces.append(_EOF)
        body = b"".join(self._pieces)
        if self._is_gzipped:
            is_long = len(body) > GZIP_IN_THREAD_BYTES
            body = await asyncio.to_thread(gzip.compress, body, 1) if is_long else gzip.compress(body, 1)
        return Scraped(body, self._content_type, self._is_gzipped)


class _One:
    """What an encoder takes: a collection of one family."""

    def __init__(self, family: MetricFamily) -> None:
        self._family = family

    def collect(self) -> Iterator[MetricFamily]:
        yield self._family


def _without_header(text: bytes) -> bytes:
    """The samples alone: a family that is made in pieces has its help and its type once."""
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"# "))


def _family(metric: Metric[Any], samples: Iterable[tuple[tuple[str, ...], Value]]) -> MetricFamily:
    name, text, labels = metric.name, metric.help, metric.labels
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(name, text, labels=labels)
        for values, value in samples:
            assert isinstance(value, Histogram), f"{name} is a histogram"
            histogram.add_metric(values, _buckets(value), value.sum)
        return histogram
    if metric.kind == "info":
        info = InfoMetricFamily(name.removesuffix("_info"), text)
        for values, _ in samples:
            info.add_metric((), dict(zip(labels, values, strict=True)))
        return info
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(name.removesuffix("_total") if metric.kind == "counter" else name, text, labels=labels)
    for values, value in samples:
        assert not isinstance(value, Histogram), f"{name} is no histogram"
        family.add_metric(values, value)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """The counts up to each bound, as Prometheus wants them."""
    up_to = 0
    found = []
    for bound, count in zip((*histogram.bounds, inf), tuple(histogram.counts), strict=True):
        up_to += count
        found.append(("+Inf" if bound == inf else repr(float(bound)), float(up_to)))
    return found
