"""Which primaries take part in an election, which of them is most senior, and how many votes a root needs."""

from __future__ import annotations

from openclust.cluster.election.view import Election, ElectionRole, hears_us, is_online, is_starting, vote_of
from openclust.cluster.protocol.status import Reign, Seniority


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


def is_critical(election: Election) -> bool:
    """Whether the cluster would have no root without this primary: it would lose its root, or could elect none.

    A sitting root stays with half of the primaries; a new one is elected by more than half.
    """
    left = [name for name in electorate(election) if name != election.name and not is_starting(election, name)]
    defined = len(election.terms.primaries)
    if election.reign is None or election.reign.root == election.name:
        return 2 * len(left) <= defined
    return 2 * len(left) < defined


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
