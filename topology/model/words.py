"""Names, numbers and times as the text of findings has them."""

from __future__ import annotations

from collections.abc import Iterable

SHOWN_MAX = 6


def few(names: Iterable[str], most: int = SHOWN_MAX) -> str:
    """`p1, p2 and p3`, or `p1, p2, p3 and 97 more`."""
    listed = list(names)
    if len(listed) > most:
        return f"{', '.join(listed[: most - 1])} and {len(listed) - most + 1} more"
    return f"{', '.join(listed[:-1])} and {listed[-1]}" if len(listed) > 1 else "".join(listed)


def number(count: float) -> str:
    """`60,000`."""
    return f"{count:,.0f}"


def ms(time: float) -> str:
    """`0.5 ms`."""
    return f"{time:.3g} ms" if time < 1000 else f"{time:,.0f} ms"
