"""One primary's view of the others: who is there, who is senior, who supports it."""

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
        """Longer between two events than this, and the process itself stood still: a tick comes every heartbeat."""
        return self.heartbeat_ms * 3 // 2

    @property
    def lease_ms(self) -> int:
        """How long a root may act on having been heard. Shorter than the voters' wait, for clocks that run unlike."""
        return self.heartbeat_ms * self.lease_beats * 9 // 10

    @property
    def wait_ms(self) -> int:
        """How long who heard a root votes for no other."""
        return self.heartbeat_ms * self.lease_beats


class OtherPrimary(msgspec.Struct, frozen=True):
    """What is known of another primary. `echoed_ms` is when we sent the last of our statuses that it has heard.

    `back_ms` is when it was heard first, or first again after it was offline.
    """

    status: Status
    heard_ms: int
    back_ms: int
    echoed_ms: int = -1
    lost: bool = False


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """One primary's view. `sent` keeps the times of our last statuses, to know what an echo means.

    `since_ms` is when it took its place. `promised` are those who may have counted on it as root or candidate, and when
    they last did: for a while it votes for no other. The name is empty for whomever it followed before it was started.
    `is_forced`: an operator made it root, and it needs nobody until it has half of the primaries again.
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
    """A primary that starts, with the vote that its store holds. Its wait begins anew: it may have followed a root."""
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
        # Not from 0 again: an echo meant for a former life must not be taken for one of this.
        number=stamp_ms,
    )


def stood_still(for_ms: int) -> str:
    """What is said of a process that was stopped, or got no time on its machine."""
    shown = f"{for_ms / 1_000:.1f} s" if for_ms >= 1_000 else f"{for_ms} ms"
    return f"this process stood still for {shown} (stopped, or its machine is busy)"


def gave_up(ended: Ended) -> str:
    """What is said of a root that has told why it is none any more, behind its name."""
    return f"has given up its place: {ended.reason}"


def not_heard(why: str) -> str:
    """What is said of a root that has gone without a word, behind its name."""
    return f"is not heard any more: {why}"


# -- who is there


def is_online(election: Election, name: str) -> bool:
    """Whether the peer was heard within the heartbeats that may be missed, and its link has not ended since."""
    peer = election.peers.get(name)
    return peer is not None and not peer.lost and election.now_ms - peer.heard_ms < election.terms.offline_ms


def hears_us(election: Election, name: str) -> bool:
    """Whether an online peer has heard us of late, as far as we know; who is just back has had no time to say so."""
    peer = election.peers[name]
    return election.now_ms - max(peer.echoed_ms, peer.back_ms) < election.terms.offline_ms


def is_starting(election: Election, name: str) -> bool:
    """Whether the primary counts as one that still starts: it says so, or was never heard and has time left."""
    if name == election.name:
        return election.role is ElectionRole.STARTING
    peer = election.peers.get(name)
    if peer is None:
        return election.now_ms - election.began_ms < election.terms.start_grace_ms
    return is_online(election, name) and peer.status.phase == "starting"


def electorate(election: Election) -> list[str]:
    """The primaries that are not offline, this one included; those that start are among them, and vote no.

    A link must work both ways: who does not hear us could never vote for us, and is offline for our election.
    """
    found = [election.name]
    for name in election.terms.primaries:
        if name == election.name:
            continue
        if hears_us(election, name) if is_online(election, name) else is_starting(election, name):
            found.append(name)
    return sorted(found)


def active(election: Election) -> list[Seniority]:
    """The active primaries that are heard, this one included, most senior first; behind them whose disk is ill."""
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
    """Who follows this root or has voted for it, and when we sent what it last heard from us."""
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

    Without this, a root would lose for good the support of who voted in a later epoch, and came back to follow it.
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
    # A candidate's own vote comes first, and no epoch is stood in twice.
    return voted is not None and voted.epoch >= vote.epoch and stands_in != vote.epoch and reign != vote


def is_pledged(election: Election) -> bool:
    """Whether this primary's vote may yet make another root than the one that it follows.

    Who is elected by it knows what this log held when the vote was given, and fetches no more than that.
    """
    vote, reign = election.vote, election.reign
    return vote is not None and reign is not None and vote.epoch > reign.epoch and not _has_spent(election, vote)


def supporters(election: Election) -> list[str]:
    """Who supports this root, or candidate, and has heard from it within the lease; itself included."""
    since = election.now_ms - election.terms.lease_ms
    return sorted([election.name, *(name for name, echoed_ms in _echoes(election).items() if echoed_ms >= since)])


def lease_end_ms(election: Election) -> int:
    """Until when a root may serve on what it has heard. Wake it then: it has to resign."""
    others = (len(election.terms.primaries) + 1) // 2 - 1
    if not others or election.is_forced:
        return 2**62
    echoes = sorted(_echoes(election).values(), reverse=True)
    return echoes[others - 1] + election.terms.lease_ms if len(echoes) >= others else -1


def serves(election: Election, now_ms: int) -> bool:
    """Whether this primary may act as root at this moment."""
    return election.role is ElectionRole.ROOT and now_ms <= lease_end_ms(election)


def votes_needed(defined: int) -> int:
    """How many of so many primaries must vote for one of them: more than half."""
    return defined // 2 + 1


def why_no_root(election: Election) -> list[tuple[str, str]]:
    """Who stands in the way of a root, and why; empty where there is a root."""
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
