"""A primary that was elected, and fetches what its voters' logs hold beyond its own before it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.cluster.log.catch_up import CatchUp
from openclust.cluster.roles.role import Role

if TYPE_CHECKING:
    from openclust.cluster.protocol.status import Position
    from openclust.cluster.roles.lasting import Lasting


class TakingOver(Role):
    """It tells the election when its log has all entries of its voters, or that it cannot get them."""

    def __init__(self, parts: Lasting, epoch: int, voters: dict[str, Position]) -> None:
        super().__init__(parts)
        self._catch_up = CatchUp(epoch, voters, parts.broker, parts.links, parts.elector, parts.replica)

    def enter(self) -> None:
        self._parts.replica.feeder = self._catch_up
        self._catch_up.begin()

    def leave(self) -> None:
        self._parts.replica.feeder = None

    def peer_gone(self, name: str) -> None:
        self._catch_up.peer_gone(name)

    def speaks_anew(self, name: str) -> None:
        self._catch_up.ask_again(name)

    def tick(self) -> None:
        self._catch_up.tick()
