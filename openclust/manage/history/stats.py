"""Counts, rates and samples in RabbitMQ's shapes: `publish`, `publish_details.rate` and the rest.

`samples` is an object by time until `finished` makes RabbitMQ's list of it: in this way the numbers of several brokers
are added up by their names alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openclust.manage.gather.ages import Ages, Family
from openclust.manage.gather.selection import Row
from openclust.manage.history.sample import CHURN_COLUMNS, DATA_COLUMNS, GAUGE_COLUMNS, LENGTH_COLUMNS, Sample
from openclust.manage.history.series import Series


def columns_of(
    sample: Sample,
    columns: Sequence[str],
    wanted: Sequence[str],
    family: Family,
    *,
    series: Series | None,
    ages: Ages,
    now_ms: int,
    with_counts: bool = True,
) -> Row:
    """The wanted columns of a sample, each with its `_details`."""
    times_ms = ages.times_ms(family, now_ms) if series is not None else []
    shown: Row = {}
    for at, name in enumerate(columns):
        if name not in wanted:
            continue
        details: dict[str, Any] = {"rate": sample.rate(at)}
        if series is not None and times_ms:
            details |= _samples(series.samples(at, times_ms))
        if with_counts:
            shown[name] = sample.counts[at]
        shown[f"{name}_details"] = details
    return shown


def _samples(samples: dict[int, int]) -> Row:
    if not samples:
        return {"samples": {}, "avg": 0.0, "avg_rate": 0.0}
    (last_ms, last), (first_ms, first) = next(iter(samples.items())), list(samples.items())[-1]
    passed_ms = last_ms - first_ms
    return {
        "samples": {str(at_ms): value for at_ms, value in samples.items()},
        "avg": sum(samples.values()) / len(samples),
        "avg_rate": 1_000 * (last - first) / passed_ms if passed_ms else 0.0,
    }


def finished(row: Row) -> Row:
    """The row as it is shown: the samples of each `_details` as a list, the latest first."""
    shown: Row = {}
    for name, value in row.items():
        if name == "samples" and isinstance(value, dict):
            ordered = sorted(value.items(), key=lambda each: -int(each[0]))
            shown[name] = [{"sample": each, "timestamp": int(at_ms)} for at_ms, each in ordered]
        else:
            shown[name] = finished(value) if isinstance(value, dict) else value
    return shown


def messages(columns: Sequence[str]) -> list[str]:
    """The columns that belong to `message_stats`."""
    others = {*LENGTH_COLUMNS, *DATA_COLUMNS, *CHURN_COLUMNS, *GAUGE_COLUMNS}
    return [name for name in columns if name not in others]
