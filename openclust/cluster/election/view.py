"""How one primary sees the others: which are there, which is the most senior, which support it."""

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


def electorate(election: Election) -> list[str]:
    """The primaries that are not offline, this one included. Those that are starting are among them, and vote no.

    A link must work both ways: a primary that does not hear this one could never vote for it, and counts as offline.
    """
    found = [election.name]
    for name in election.terms.primaries:
        if name == election.name:
            continue
        if hears_us(election, name) if is_online(election, name) else is_starting(election, name):
            found.append(name)
    return sorted(found)


def active(election: Election) -> list[Seniority]:
    """The active primaries that are heard, this one included, most senior first, those with an ill disk last."""
    found = [(bool(election.illness), election.seniority)] if election.role is not ElectionRole.STARTING else []
    for name in election.terms.primaries:
        if name != election.name and is_online(election, name):
            status = election.peers[name].status
            if status.phase == "active":
                found.append((bool(status.illness), status.seniority))
    return [seniority for _, seniority in sorted(found)]


def can_spare(election: Election) -> bool:
    """Whether the others could elect one of them whose disk is well, without this one's vote.

    A vote counts only once it is on disk, and that may be the very disk that is ill.
    """
    others = [name for name in electorate(election) if name != election.name and not is_starting(election, name)]
    if 2 * len(others) <= len(election.terms.primaries):
        return False
    return any(not election.peers[name].status.illness for name in others)


def _echoes(election: Election) -> dict[str, int]:
    """The primaries that follow this root or have voted for it: when we sent the last status that each has heard."""
    mine = Reign(election.reign.epoch if election.reign else election.stands_in, election.name)
    found = {}
    for name in election.terms.primaries:
        peer = election.peers.get(name)
        if name == election.name or peer is None or peer.lost:
            continue
        status = peer.status
        bound = status.vote.epoch if status.vote else 0
        follows = status.reign == mine and (bound <= mine.epoch or _has_spent(election, status.vote))
        if follows or (status.vote == mine and status.epoch <= mine.epoch):
            found[name] = peer.echoed_ms
    return found


def _has_spent(election: Election, vote: Reign | None) -> bool:
    """Whether a vote can make nobody root any more: its candidate has stood in that epoch, and given up.

    Without this, a root would lose for good the support of a primary that voted in a later epoch and came back.
    """
    if vote is None:
        return True
    if vote.root == election.name:
        stands_in, reign, voted = election.stands_in, election.reign, election.vote
    elif vote.root in election.peers:
        status = election.peers[vote.root].status
        stands_in, reign, voted = status.stands_in, status.reign, status.vote
    else:
        return False
    # A candidate votes for itself first, and stands in no epoch twice.
    return voted is not None and voted.epoch >= vote.epoch and stands_in != vote.epoch and reign != vote


def is_pledged(election: Election) -> bool:
    """Whether this primary's vote may yet make another primary root than the one that it follows.

    A candidate elected by that vote knows how far this log went when the vote was given, and fetches no more of it.
    """
    vote, reign = election.vote, election.reign
    return vote is not None and reign is not None and vote.epoch > reign.epoch and not _has_spent(election, vote)


def supporters(election: Election) -> list[str]:
    """The primaries that support this root or candidate and have heard it within the lease, itself included."""
    since = election.now_ms - election.terms.lease_ms
    return sorted([election.name, *(name for name, echoed_ms in _echoes(election).items() if echoed_ms >= since)])


def lease_end_ms(election: Election) -> int:
    """Until when a root may serve, by the echoes it has so far. Wake it then: it has to resign."""
    others = (len(election.terms.primaries) + 1) // 2 - 1
    if not others or election.is_forced:
        return 2**62
    echoes = sorted(_echoes(election).values(), reverse=True)
    return echoes[others - 1] + election.terms.lease_ms if len(echoes) >= others else -1


def serves(election: Election, now_ms: int) -> bool:
    """Whether this primary may act as root at this moment."""
    return election.role is ElectionRole.ROOT and now_ms <= lease_end_ms(election)


def votes_needed(defined: int) -> int:
    """How many of the defined primaries must vote for one of them: more than half."""
    return defined // 2 + 1


def why_no_root(election: Election) -> list[tuple[str, str]]:
    """The primaries that stand in the way of a root, each with its reason; empty where there is a root."""
    if election.reign is not None:
        return []
    there = electorate(election)
    defined = len(election.terms.primaries)
    reasons = [(each, "is starting") for each in there if is_starting(election, each)]
    if 2 * len(there) <= defined:
        missing = (each for each in election.terms.primaries if each not in there)
        reasons += [(each, "does not hear us" if is_online(election, each) else "is offline") for each in missing]
    first = active(election)[:1]
    for each in first:
        wanted = Reign(_standing(election, each.name), each.name)
        if not wanted.epoch:
            reasons.append((each.name, "is the most senior and does not stand: it follows or waits for another"))
            continue
        for name in there:
            if vote_of(election, name) != wanted and not is_starting(election, name):
                reasons.append((name, f"has not voted for {each.name} in epoch {wanted.epoch}"))
        if not reasons:
            reasons.append((each.name, f"has the votes in epoch {wanted.epoch}, and fetches what its voters hold"))
    return reasons


def _standing(election: Election, name: str) -> int:
    return election.stands_in if name == election.name else election.peers[name].status.stands_in


def vote_of(election: Election, name: str) -> Reign | None:
    """The last vote of a primary, as far as it is known."""
    if name == election.name:
        return election.vote
    peer = election.peers.get(name)
    return peer.status.vote if peer is not None else None
