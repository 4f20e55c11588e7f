"""The election as one primary sees it: its terms, its own state, and the other primaries as they were last heard."""

from __future__ import annotations

from enum import Enum

import msgspec

from openclust.cluster.protocol.status import Ended, Phase, Position, Reign, Seniority, Status


class ElectionRole(Enum):
    """What a primary is in the cluster, as far as it knows."""

    STARTING = "starting"
    ELECTOR = "elector"
    BACKUP = "backup"
    TAKING_OVER = "taking over"
    ROOT = "root"


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What all primaries of a cluster agree on. `primaries` are the defined ones."""

    primaries: tuple[str, ...]
    heartbeat_ms: int = 100
    missed_max: int = 3
    lease_beats: int = 2
    start_grace_ms: int = 5_000

    @property
    def offline_ms(self) -> int:
        return self.heartbeat_ms * self.missed_max

    @property
    def stood_still_ms(self) -> int:
        """A tick comes every heartbeat: if more time than this is between two events, this process stood still."""
        return self.heartbeat_ms * 3 // 2

    @property
    def lease_ms(self) -> int:
        """How long a root may act on having been heard. Shorter than the voters' wait: clocks differ in speed."""
        return self.heartbeat_ms * self.lease_beats * 9 // 10

    @property
    def wait_ms(self) -> int:
        """How long a primary that heard a root votes for no other candidate."""
        return self.heartbeat_ms * self.lease_beats


class OtherPrimary(msgspec.Struct, frozen=True):
    """What is known of another primary. `echoed_ms` is when we sent the last of our statuses that it has heard.

    `back_ms` is when it was heard for the first time, or for the first time after it was offline.
    """

    status: Status
    heard_ms: int
    back_ms: int
    echoed_ms: int = -1
    lost: bool = False


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """The election as one primary sees it. `sent` has the times of its last statuses, to know what an echo means.

    `since_ms` is when it took its place in the order of seniority. `promised` names the primaries that may count on its
    support, as root or as candidate, and when they last could: until the wait is over it votes for no other. The empty
    name stands for a root that it may have followed before it was started. `is_forced`: an operator made it root, and
    it needs no support until half of the primaries hear it again.
    """

    terms: Terms
    seniority: Seniority
    now_ms: int
    began_ms: int
    first_stamp_ms: int
    since_ms: int = 0
    role: ElectionRole = ElectionRole.STARTING
    number: int = 0
    position: Position = Position()
    stands_in: int = 0
    vote: Reign | None = None
    reign: Reign | None = None
    peers: dict[str, OtherPrimary] = {}
    sent: dict[int, int] = {}
    promised: dict[str, int] = {}
    is_forced: bool = False
    illness: str = ""
    ended: Ended | None = None

    @property
    def name(self) -> str:
        return self.seniority.name

    def status(self) -> Status:
        phase: Phase = "starting" if self.role is ElectionRole.STARTING else "active"
        return Status(
            number=self.number,
            seniority=self.seniority,
            phase=phase,
            position=self.position,
            stands_in=self.stands_in,
            vote=self.vote,
            reign=self.reign,
            heard={name: peer.status.number for name, peer in sorted(self.peers.items())},
            illness=self.illness,
            ended=self.ended,
            held_ms=self.now_ms - self.since_ms,
        )


def begin(terms: Terms, name: str, stamp_ms: int, now_ms: int, vote: Reign | None = None) -> Election:
    """A primary that starts, with the last vote on its disk. Its wait begins anew: it may have followed a root."""
    assert name in terms.primaries, "only primaries elect"
    return Election(
        terms=terms,
        seniority=Seniority(stamp_ms, name),
        now_ms=now_ms,
        began_ms=now_ms,
        first_stamp_ms=stamp_ms,
        since_ms=now_ms,
        vote=vote,
        promised={"": now_ms} if len(terms.primaries) > 1 else {},
        # Numbers do not begin at 0: an echo for a former life of this broker must not count in this one.
        number=stamp_ms,
    )


# -- who is there


def is_online(election: Election, name: str) -> bool:
    """Whether the peer was heard within the heartbeats that may be missed, and its link has not ended since."""
    peer = election.peers.get(name)
    return peer is not None and not peer.lost and election.now_ms - peer.heard_ms < election.terms.offline_ms


def hears_us(election: Election, name: str) -> bool:
    """Whether an online peer has heard us of late, as far as we know; one that is just back counts as if it had."""
    peer = election.peers[name]
    return election.now_ms - max(peer.echoed_ms, peer.back_ms) < election.terms.offline_ms


def is_starting(election: Election, name: str) -> bool:
    """Whether a primary counts as starting: it says so, or it was never heard and its grace is not over."""
    if name == election.name:
        return election.role is ElectionRole.STARTING
    peer = election.peers.get(name)
    if peer is None:
        return election.now_ms - election.began_ms < election.terms.start_grace_ms
    return is_online(election, name) and peer.status.phase == "starting"


def vote_of(election: Election, name: str) -> Reign | None:
    """The last vote of a primary, as far as it is known."""
    if name == election.name:
        return election.vote
    peer = election.peers.get(name)
    return peer.status.vote if peer is not None else None
