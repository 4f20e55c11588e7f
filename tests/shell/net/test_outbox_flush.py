"""Writing outboxes: a part at a time where they are many, and all of them before anybody is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from openclust.shell.net.outbox_flush import WRITES_AT_ONCE, OutboxFlush


class Loop:
    """Remembers what is to be called soon."""

    def __init__(self) -> None:
        self.soon: list[Any] = []

    def call_soon(self, what: Any) -> None:
        self.soon.append(what)

    def go_on(self) -> None:
        soon, self.soon = self.soon, []
        for each in soon:
            each()


def connections(count: int, written: list[int]) -> list[Any]:
    return [
        SimpleNamespace(transport=SimpleNamespace(flush=lambda number=number: written.append(number)))
        for number in range(count)
    ]


def test_few_outboxes_are_written_at_once() -> None:
    written: list[int] = []
    told: list[int] = []
    loop = Loop()
    OutboxFlush(cast(Any, loop), lambda: told.append(len(written))).add(connections(3, written))
    assert (written, told, loop.soon) == ([0, 1, 2], [3], [])


def test_many_are_written_in_rounds_of_the_loop_and_in_their_order() -> None:
    written: list[int] = []
    told: list[int] = []
    loop = Loop()
    writing = OutboxFlush(cast(Any, loop), lambda: told.append(len(written)))
    writing.add(connections(WRITES_AT_ONCE + 5, written))
    assert len(written) == WRITES_AT_ONCE and not told
    # What comes meanwhile waits its turn.
    writing.add(connections(2, written))
    assert len(written) == WRITES_AT_ONCE and len(loop.soon) == 1
    loop.go_on()
    assert written == [*range(WRITES_AT_ONCE + 5), 0, 1] and told == [WRITES_AT_ONCE + 7] and not loop.soon
