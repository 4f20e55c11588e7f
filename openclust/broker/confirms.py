"""Publisher confirms of one channel: what became of each publish, told in as few frames as may be."""

from __future__ import annotations

from collections.abc import Iterator

from openclust.wire.methods import BasicAck, BasicNack


class Confirms:
    """Publishes are numbered from 1. `settle` says what became of the next one; `take` gives what to tell."""

    __slots__ = ("_runs", "_settled", "_told")

    def __init__(self) -> None:
        self._settled = 0
        self._told = 0
        self._runs: list[tuple[int, bool]] = []

    def settle(self, accepted: bool) -> bool:
        """Whether there was nothing to tell before."""
        self._settled += 1
        runs = self._runs
        if not runs:
            runs.append((self._settled, accepted))
            return True
        if runs[-1][1] is accepted:
            runs[-1] = (self._settled, accepted)
        else:
            runs.append((self._settled, accepted))
        return False

    def take(self) -> Iterator[BasicAck | BasicNack]:
        """The confirms not yet told, one a run of equal verdicts."""
        runs, self._runs = self._runs, []
        for upto, accepted in runs:
            multiple = upto - self._told > 1
            self._told = upto
            if accepted:
                yield BasicAck(delivery_tag=upto, multiple=multiple)
            else:
                yield BasicNack(delivery_tag=upto, multiple=multiple, requeue=False)
