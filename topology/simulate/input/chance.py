"""Random numbers that depend only on a seed, a purpose and an identity: equal for all partitions and orders."""

from __future__ import annotations

import math

from pyspark.sql import Column
from pyspark.sql import functions as F

from topology.simulate.input.workload import ClientGroup, Popularity

_BITS = 53


class Purpose:
    """The purposes of random numbers. Using one number for two purposes would correlate them."""

    TOPIC = 1
    TIME = 2
    CLIENT = 3
    LINK = 4
    PHASE = 5
    INTEREST = 6


def uniform(seed: int, purpose: int, *identity: Column | int) -> Column:
    """A number of at least 0 and less than 1."""
    parts = (part if isinstance(part, Column) else F.lit(part) for part in identity)
    hashed = F.xxhash64(F.lit(seed), F.lit(purpose), *parts)
    return F.shiftrightunsigned(hashed, 64 - _BITS) * F.lit(2.0**-_BITS)


def below(drawn: Column, count: Column | int) -> Column:
    """A whole number from 0 below `count`."""
    # The product can be rounded up to count itself.
    count = count if isinstance(count, Column) else F.lit(count)
    return F.least(F.floor(drawn * count), count - 1)


def draw_topic(drawn: Column, count: int, popularity: Popularity, exponent: float) -> Column:
    """A topic's number within its set; with "zipf" number k has about (k + 1) ** -exponent of all: see `share_of`."""
    if popularity == "uniform" or count == 1:
        return below(drawn, count).cast("int")
    # The inverse of the distribution whose density is x ** -exponent from 1 to count + 1, cut to whole numbers.
    if exponent == 1.0:
        value = F.pow(F.lit(float(count + 1)), drawn)
    else:
        power = 1.0 - exponent
        value = F.pow(drawn * ((count + 1.0) ** power - 1.0) + 1.0, F.lit(1.0 / power))
    return F.greatest(F.least(F.floor(value) - 1, F.lit(count - 1)), F.lit(0)).cast("int")


def share_of(topic: int, count: int, popularity: Popularity, exponent: float) -> float:
    """The chance that `draw_topic` gives this topic."""
    if popularity == "uniform":
        return 1 / count
    return _area(topic + 1, topic + 2, exponent) / _area(1, count + 1, exponent)


def _area(low: float, high: float, exponent: float) -> float:
    """The integral of x ** -exponent from `low` to `high`."""
    if exponent == 1.0:
        return math.log(high / low)
    area: float = (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
    return area


def link_us(seed: int, group: ClientGroup, client: Column) -> Column:
    """The one-way latency of a client to any broker."""
    if not group.jitter_us:
        return F.lit(group.latency_us)
    drawn = uniform(seed, Purpose.LINK, group.number, client)
    return (F.lit(group.latency_us) + below(drawn, group.jitter_us + 1)).cast("int")
