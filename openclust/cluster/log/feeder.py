"""The source of a log that another broker writes: the root that this one follows, or a voter that it fetches from."""

from __future__ import annotations

from typing import Protocol


class Feeder(Protocol):
    """What the replica asks and tells its source. A root has none, nor has a broker without a root."""

    takes_beyond_room: bool
    """Whether entries are taken although too much waits for the disk."""

    def is_from(self, peer: str, epoch: int) -> bool:
        """Whether entries of this peer, in this epoch, may be taken."""

    def spoken(self) -> None:
        """The peer has sent something that it was asked for."""

    def advanced(self, *, is_urgent: bool) -> None:
        """Entries were taken, or a snapshot installed. `is_urgent`: the sender waits to hear so."""

    def missed(self) -> None:
        """Entries came that do not follow the end of this log: some before them are missing."""

    def ask_for_all(self) -> None:
        """Ask for a snapshot: entries alone do not help."""

    def differs(self) -> None:
        """An entry could not be done here: the definitions of this broker differ from the root's."""

    def on_disk(self) -> None:
        """More of the log is on this broker's disk."""

    def installed(self, *, is_lost: bool) -> None:
        """A snapshot was installed, or could not be read and is lost: the log may go on."""
