"""Numbers as people read them: `12.3 k`, `4.1 ms`, `63 %`. nan and infinity are a dash."""

from __future__ import annotations

import math

NOTHING = "-"
_THOUSANDS = ("", " k", " M", " G", " T")
_EXACT_BELOW = 10_000


def count(number: float | None) -> str:
    """`9,812`, and from ten thousand on `12.3 k`."""
    if number is None or not math.isfinite(number):
        return NOTHING
    if abs(number) < _EXACT_BELOW:
        return f"{number:,.0f}" if float(number).is_integer() or abs(number) >= 1_000 else three(number)
    return _scaled(number, _THOUSANDS)


def per_s(number: float | None) -> str:
    told = count(number)
    return told if told == NOTHING else f"{told}/s"


def size(number: float | None) -> str:
    """A number of bytes: `12.3 kB`."""
    if number is None or not math.isfinite(number):
        return NOTHING
    return _scaled(number, (" B", " kB", " MB", " GB", " TB"))


def memory(megabytes: float | None) -> str:
    return NOTHING if megabytes is None else size(megabytes * 1e6)


def mbit(number: float | None) -> str:
    if number is None or not math.isfinite(number):
        return NOTHING
    return f"{three(number)} Mbit/s" if number < 1_000 else f"{three(number / 1_000)} Gbit/s"


def ms(time: float | None) -> str:
    """A time of milliseconds, in the unit that suits it."""
    if time is None or not math.isfinite(time):
        return NOTHING
    if time and abs(time) < 1:
        return f"{three(time * 1_000)} us"
    return f"{three(time)} ms" if abs(time) < 1_000 else seconds(time / 1_000)


def seconds(time: float | None) -> str:
    if time is None or not math.isfinite(time):
        return NOTHING
    if abs(time) < 120:
        return f"{three(time)} s" if abs(time) >= 1 or not time else ms(time * 1_000)
    return f"{three(time / 60)} min" if abs(time) < 7_200 else f"{three(time / 3_600)} h"


def share(part: float | None) -> str:
    """A part of 1: `63 %`, `0.4 %`; `100 %` only if it is all."""
    if part is None or not math.isfinite(part):
        return NOTHING
    percent = part * 100
    if 99 < percent < 100:
        # All leading nines, and the digit after them.
        digits = min(6, -math.floor(math.log10(100 - percent)))
        return f"{math.floor(percent * 10**digits) / 10**digits:.{digits}f} %"
    return f"{percent:,.0f} %" if percent >= 10 or not percent else f"{percent:.2g} %"


def times(factor: float | None) -> str:
    """`1.6 times`."""
    return NOTHING if factor is None or not math.isfinite(factor) else f"{three(factor)} times"


def three(number: float) -> str:
    """A number in three digits, without an exponent: `1,230` stays whole, `0.0123` keeps its zeros."""
    if not math.isfinite(number):
        return NOTHING
    if abs(number) >= 100:
        return f"{number:,.0f}"
    if not number or abs(number) < 1e-6:
        return "0"
    digits = 2 - math.floor(math.log10(abs(number)))
    text = f"{number:.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plural(number: int, noun: str) -> str:
    """`1 broker`, `12.3 k brokers`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def _scaled(number: float, units: tuple[str, ...]) -> str:
    scaled = number
    for unit in units[:-1]:
        if abs(scaled) < 999.5:
            return f"{three(scaled)}{unit}"
        scaled /= 1_000
    return f"{three(scaled)}{units[-1]}"
