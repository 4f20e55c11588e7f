"""One metric: its name, its type, what it says, and where its values come from. The exposition and the page on metrics
are both made from tables of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from openclust.broker.counts.histogram import Histogram

Kind = Literal["counter", "gauge", "histogram", "info"]
Value: TypeAlias = float | Histogram
Samples: TypeAlias = Iterable[tuple[tuple[str, ...], Value]]
"""Values, each with those of its labels."""

S = TypeVar("S")


class Metric(NamedTuple, Generic[S]):
    """`read` takes the values from a source `S`; each has as many label values as there are `labels`.

    The name is the one that is exposed: that of a counter ends in `_total`, that of an info in `_info`. `source` tells
    people where the value comes from.
    """

    name: str
    kind: Kind
    help: str
    source: str
    read: Callable[[S], Samples]
    labels: tuple[str, ...] = ()


def one(value: float | Histogram | None) -> Samples:
    """The only value of a metric without labels; none where the broker has no such thing."""
    return () if value is None else (((), value),)
