"""What of a broker outlives it: the vote, once it is written, the cluster's own name, and its store."""

from __future__ import annotations

from openclust.cluster.protocol.status import Reign
from tests.simulator.invariants import Violation
from tests.simulator.store import ModelStore


class Disk:
    """`votes` are all that were ever written, to hold each new one against; a start reads the others."""

    __slots__ = ("_name", "store", "uuid", "vote", "votes")

    def __init__(self, name: str) -> None:
        self._name = name
        self.vote: Reign | None = None
        self.uuid = ""
        self.votes: dict[int, str] = {}
        self.store = ModelStore()

    def write(self, vote: Reign) -> None:
        if self.vote is not None and vote.epoch < self.vote.epoch:
            raise Violation(f"{self._name} writes a vote of epoch {vote.epoch} after one of epoch {self.vote.epoch}")
        before = self.votes.setdefault(vote.epoch, vote.root)
        if before != vote.root:
            raise Violation(f"{self._name} votes for {vote.root} in epoch {vote.epoch}, and had voted for {before}")
        self.vote = vote


class ForgetfulDisk(Disk):
    """Writes nothing, and says it did: to see that the simulator would notice."""

    def write(self, vote: Reign) -> None:
        pass
