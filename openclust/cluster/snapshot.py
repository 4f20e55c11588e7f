"""A snapshot of the definitions: made bit by bit while they change, sent in parts, and used when all of it is there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from openclust.broker.change_codec import encode_change
from openclust.broker.changes import Change
from openclust.cluster.messages import Snapshot
from openclust.cluster.status import Position


class Making:
    """Call `advance` once a turn until it `is_made`, and tell it what is `changed` meanwhile.

    A definition that changes is taken as before or as after that. The changes follow at the end: what they are about is
    then as they left it, and the whole is the state at `position`.
    """

    def __init__(self, state: Iterator[Change], part_max: int) -> None:
        self.parts: list[list[bytes]] = []
        self.position = Position()
        self.is_made = False
        self._state = state
        self._part_max = part_max
        self._changed: list[bytes] = []

    def changed(self, body: bytes) -> None:
        """A change was made; encoded."""
        if not self.is_made:
            self._changed.append(body)

    def advance(self, position: Position) -> None:
        """Take the next part. The log ends at `position`."""
        part = [encode_change(each) for each in islice(self._state, self._part_max)]
        if len(part) == self._part_max:
            self.parts.append(part)
            return
        part += self._changed
        self.parts += [part[at : at + self._part_max] for at in range(0, len(part) or 1, self._part_max)]
        self.position = position
        self.is_made = True
        self._changed = []

    def message(self, part: int, epoch: int, uuid: str) -> Snapshot:
        """A part of it to be sent, one that is there."""
        changes = self.parts[part]
        if not self.is_made or part < len(self.parts) - 1:
            return Snapshot(epoch=epoch, part=part, changes=changes, is_last=False)
        return Snapshot(epoch=epoch, part=part, changes=changes, position=self.position, uuid=uuid)


class Arriving:
    """The parts of a snapshot that have come. As many bytes as the state has: who sends it is root, or was."""

    def __init__(self) -> None:
        self._parts: list[list[bytes]] = []
        self._of: tuple[str, int] = ("", 0)

    def forget(self) -> None:
        """It is asked for anew, or the log goes on without it."""
        self._parts = []

    def add(self, peer: str, message: Snapshot) -> bool:
        """Whether it is the next part; the first one begins anew, whatever was there."""
        of = peer, message.epoch
        if message.part == 0:
            self._parts, self._of = [], of
        if message.part != len(self._parts) or of != self._of:
            self.forget()
            return False
        self._parts.append(message.changes)
        return True

    def take(self) -> list[list[bytes]]:
        """All parts, once they are here."""
        parts, self._parts = self._parts, []
        return parts
