"""How long a root may serve: while enough primaries support it and have heard it of late."""

from __future__ import annotations

from openclust.cluster.election.view import Election, ElectionRole
from openclust.cluster.protocol.status import Reign


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
