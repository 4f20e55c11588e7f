"""Where a log comes from that is not this broker's own: the root that it follows, or the voter that it fetches from."""

from __future__ import annotations

from typing import Protocol


class Feeder(Protocol):
    """What the replica asks and tells whoever it is fed by. A root, and a broker without one, have none."""

    takes_beyond_room: bool
    """Whether the log is taken although more waits for the disk than may."""

    def is_from(self, peer: str, epoch: int) -> bool:
        """Whether the log may be fed by this peer, in this epoch."""

    def spoken(self) -> None:
        """Something has come that was asked for."""

    def advanced(self, *, is_urgent: bool) -> None:
        """The log here goes on from where the sender's does."""

    def missed(self) -> None:
        """What came does not go on from here."""

    def ask_for_all(self) -> None:
        """Only a snapshot helps."""

    def differs(self) -> None:
        """What is here is not what the log says."""

    def on_disk(self) -> None:
        """More of the log is on this broker's disk."""

    def installed(self, *, is_lost: bool) -> None:
        """A snapshot that kept all waiting is in use, or could not be read and is lost."""
