"""Whether a broker may be emptied and taken away: what would be left must still be able to elect a root."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from openclust.cluster.protocol.roster import Roster


def obstacle(name: str, primaries: Iterable[str], is_there: Callable[[str], bool], roster: Roster) -> str:
    """Why the broker `name` cannot be spared, for people; empty where it can.

    Primaries that are drained themselves are as good as gone.
    """
    defined = sorted(primaries)
    if name not in defined:
        return ""
    drained = {each.name for each in roster.brokers if each.is_draining}
    left = [each for each in defined if each != name and each not in drained and is_there(each)]
    if 2 * len(left) > len(defined):
        return ""
    return (
        f"without {name} there would be {len(left)} of {len(defined)} primaries ({', '.join(left) or 'none'}), "
        "too few to elect a root"
    )
