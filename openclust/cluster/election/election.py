"""Who is root: a continuous election by unanimous vote of the primaries that are not offline.

A pure state machine: `step(election, event)` gives the election after the event, and the effects to perform, in order.
`evaluate` decides after every event what follows from it; the table `TRANSITIONS` has every change of role.

Two primaries are never root at the same time. A vote is for one candidate in one epoch, and on disk before it is sent;
a root needs the votes of more than half of the defined primaries, so no epoch has two. It serves (`view.serves`) only
while at least half of the defined primaries, itself counted, have heard from it within the lease. A primary that has
heard a root, or voted for it, votes for no other until a longer wait is over, counted from the later of these moments.
More than half of the primaries and half of them always share a member.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from openclust.cluster.election.events import (
    Appended,
    CaughtUp,
    ClocksDiffer,
    DiskIs,
    ElectionEffect,
    Event,
    Follow,
    Force,
    NoRoot,
    PeerLost,
    PersistVote,
    Resign,
    Serve,
    StatusHeard,
    StepDown,
    StoreRead,
    TakeOver,
    Tell,
    TellPeer,
    Tick,
)
from openclust.cluster.election.lease import supporters
from openclust.cluster.election.lost_root import lost_root, stood_still
from openclust.cluster.election.quorum import active, can_spare, electorate
from openclust.cluster.election.view import Election, ElectionRole, OtherPrimary, is_online, is_starting, vote_of
from openclust.cluster.protocol.status import Ended, Reign, Seniority, Status


class Trigger(Enum):
    """The reasons for which the role changes."""

    READY = "its store is read"
    ROOT_HEARD = "a root is heard"
    ROOT_LOST = "its root is heard no more"
    ELECTED = "all of the electorate voted for it"
    CAUGHT_UP = "it holds all that its voters hold"
    QUORUM_LOST = "fewer than half of the primaries hear it"
    OVERRULED = "a later reign is heard"
    STEPPED_DOWN = "it was told to, or is sick"
    FORCED = "an operator accepts the loss of what it lacks"


TRANSITIONS: dict[tuple[ElectionRole, Trigger], ElectionRole] = {
    (ElectionRole.STARTING, Trigger.READY): ElectionRole.ELECTOR,
    (ElectionRole.ELECTOR, Trigger.ROOT_HEARD): ElectionRole.BACKUP,
    (ElectionRole.ELECTOR, Trigger.ELECTED): ElectionRole.TAKING_OVER,
    (ElectionRole.ELECTOR, Trigger.FORCED): ElectionRole.ROOT,
    (ElectionRole.BACKUP, Trigger.ROOT_LOST): ElectionRole.ELECTOR,
    (ElectionRole.BACKUP, Trigger.ROOT_HEARD): ElectionRole.BACKUP,
    (ElectionRole.TAKING_OVER, Trigger.CAUGHT_UP): ElectionRole.ROOT,
    (ElectionRole.TAKING_OVER, Trigger.QUORUM_LOST): ElectionRole.ELECTOR,
    (ElectionRole.TAKING_OVER, Trigger.OVERRULED): ElectionRole.ELECTOR,
    (ElectionRole.TAKING_OVER, Trigger.STEPPED_DOWN): ElectionRole.ELECTOR,
    (ElectionRole.ROOT, Trigger.QUORUM_LOST): ElectionRole.ELECTOR,
    (ElectionRole.ROOT, Trigger.OVERRULED): ElectionRole.ELECTOR,
    (ElectionRole.ROOT, Trigger.STEPPED_DOWN): ElectionRole.ELECTOR,
}
"""Every change of role there is."""


# -- steps


def step(election: Election, event: Event) -> tuple[Election, list[ElectionEffect]]:
    """The election after the event, and the effects to perform, in this order."""
    before = election
    election = msgspec.structs.replace(election, now_ms=max(election.now_ms, event.now_ms))
    effects: list[ElectionEffect] = []
    match event:
        case StatusHeard():
            election = _hear(election, event.status)
            election, differ = _rank(election, event.status)
            effects += differ
        case PeerLost():
            peer = election.peers.get(event.name)
            if peer is not None:
                lost = msgspec.structs.replace(peer, lost=True)
                election = msgspec.structs.replace(election, peers={**election.peers, event.name: lost})
        case StoreRead():
            election = _move(election, Trigger.READY)
        case Appended():
            election = msgspec.structs.replace(election, position=event.position)
        case CaughtUp():
            election, served = _caught_up(election, event.epoch)
            effects += served
        case StepDown():
            if election.role in (ElectionRole.ROOT, ElectionRole.TAKING_OVER):
                election, resigned = _resign(election, Trigger.STEPPED_DOWN, event.reason)
                effects += resigned
        case DiskIs():
            election = msgspec.structs.replace(election, illness=event.illness)
        case Force():
            election, forced = _force(election)
            effects += forced
        case Tick():
            pass
    election, more = evaluate(election, is_tick=isinstance(event, Tick), passed_ms=election.now_ms - before.now_ms)
    effects += more
    if isinstance(event, Tick) or _told(election) != _told(before):
        election, status = _number(election)
        effects.append(Tell(status))
    elif isinstance(event, StatusHeard) and event.status.name in election.promised:
        # The lease of a root or candidate depends on echoes: it gets one at once, not with the next heartbeat.
        election, status = _number(election)
        effects.append(TellPeer(event.status.name, status))
    return election, effects


def _caught_up(election: Election, epoch: int) -> tuple[Election, list[ElectionEffect]]:
    """Begin to serve, if more than half of the primaries still support it."""
    if election.role is not ElectionRole.TAKING_OVER or election.stands_in != epoch:
        return election, []
    if 2 * len(supporters(election)) <= len(election.terms.primaries):
        return _resign(election, Trigger.QUORUM_LOST, "its voters are gone")
    election = _move(election, Trigger.CAUGHT_UP)
    return msgspec.structs.replace(election, reign=Reign(epoch, election.name), stands_in=0, ended=None), [Serve(epoch)]


def _force(election: Election) -> tuple[Election, list[ElectionEffect]]:
    """Make this primary root without an election, if no root is heard."""
    if election.role is not ElectionRole.ELECTOR:
        return election, []
    epoch = 1 + max([election.status().epoch, *(peer.status.epoch for peer in election.peers.values())])
    reign = Reign(epoch, election.name)
    election = _move(election, Trigger.FORCED)
    election = msgspec.structs.replace(election, vote=reign, reign=reign, stands_in=0, is_forced=True, ended=None)
    return election, [PersistVote(reign), Serve(epoch)]


def _told(election: Election) -> tuple[object, ...]:
    """The parts of the status of whose change peers are told at once."""
    reigns = (election.role, election.stands_in, election.vote, election.reign)
    return (*reigns, election.seniority, bool(election.illness), len(election.peers))


def _number(election: Election) -> tuple[Election, Status]:
    """The current status, under the next number. When it was sent is remembered for its echo."""
    number = election.number + 1
    oldest = election.now_ms - election.terms.offline_ms
    sent = {each: at for each, at in election.sent.items() if at >= oldest}
    election = msgspec.structs.replace(election, number=number, sent={**sent, number: election.now_ms})
    return election, election.status()


def _hear(election: Election, status: Status) -> Election:
    """Take a peer's status. One from a broker that is no primary, or an older one, changes nothing."""
    name = status.name
    if name == election.name or name not in election.terms.primaries:
        return election
    known = election.peers.get(name)
    if known is not None and is_online(election, name):
        # One link keeps the order of statuses; one that comes by another link must be newer.
        before = (known.status.seniority.stamp_ms, known.status.number)
        if (status.seniority.stamp_ms, status.number) <= before:
            return election
    echoed = election.sent.get(status.heard.get(election.name, 0), -1)
    back_ms = election.now_ms
    if known is not None:
        echoed = max(echoed, known.echoed_ms)
        back_ms = known.back_ms if is_online(election, name) else back_ms
    peer = OtherPrimary(status, election.now_ms, back_ms, echoed)
    election = msgspec.structs.replace(election, peers={**election.peers, name: peer})
    return _promise(election, status)


def _rank(election: Election, status: Status) -> tuple[Election, list[ElectionEffect]]:
    """Become junior to a primary that took its place before this one did, though its stamp is later.

    The wall clock of one of the two was wrong, and it does not matter which: how long each has had its place is
    measured by monotonic clocks. The comparison allows for their difference in speed and for the age of the status.
    """
    if status.name not in election.peers or status.seniority <= election.seniority:
        return election, []
    held_ms = election.now_ms - election.since_ms
    if status.held_ms * 9 // 10 <= held_ms + election.terms.offline_ms:
        return election, []
    own_stamp_ms = election.first_stamp_ms + election.since_ms - election.began_ms
    by_ms = status.seniority.stamp_ms + status.held_ms - own_stamp_ms - held_ms
    seniority = Seniority(status.seniority.stamp_ms + 1, election.name)
    return msgspec.structs.replace(election, seniority=seniority), [ClocksDiffer(status.name, by_ms)]


def _promise(election: Election, status: Status) -> Election:
    """Note that a heard root, or the candidate we voted for, may count on our support, until it gives up.

    The status of one primary changes nothing for the others that may count on our support.
    """
    name = status.name
    reigns = status.reign is not None and status.reign.root == name
    stands = election.vote is not None and election.vote == Reign(status.stands_in, name)
    if reigns or stands:
        return msgspec.structs.replace(election, promised={**election.promised, name: election.now_ms})
    # The primary itself says that it is not root: there is no reason to wait.
    others = {each: at for each, at in election.promised.items() if each != name}
    return msgspec.structs.replace(election, promised=others)


def _may_vote_for(election: Election, name: str) -> bool:
    """Whether no other primary can still be root by our support."""
    since = election.now_ms - election.terms.wait_ms
    return all(each == name or at <= since for each, at in election.promised.items())


def _move(election: Election, trigger: Trigger) -> Election:
    """The election in the role that `TRANSITIONS` gives."""
    role = TRANSITIONS.get((election.role, trigger))
    assert role is not None, f"{election.role} has no place for {trigger}"
    return msgspec.structs.replace(election, role=role)


def evaluate(election: Election, *, is_tick: bool, passed_ms: int = 0) -> tuple[Election, list[ElectionEffect]]:
    """Decide by all that is known now; the last event was `passed_ms` ago."""
    if election.role is ElectionRole.STARTING:
        return election, []
    heard = _root_heard(election)
    if election.role in (ElectionRole.ROOT, ElectionRole.TAKING_OVER):
        return _evaluate_reign(election, heard, passed_ms)
    if heard is not None:
        if election.role is ElectionRole.BACKUP and election.reign == heard:
            return election, []
        election = _move(election, Trigger.ROOT_HEARD)
        return msgspec.structs.replace(election, reign=heard, stands_in=0, ended=None), [Follow(heard)]
    effects: list[ElectionEffect] = []
    if election.role is ElectionRole.BACKUP:
        assert election.reign is not None, "a backup has a root"
        effects.append(_root_lost(election, election.reign, passed_ms))
        election = _move(election, Trigger.ROOT_LOST)
        election = msgspec.structs.replace(election, reign=None)
    election, more = _elect(election, is_tick=is_tick)
    return election, effects + more


def _root_heard(election: Election) -> Reign | None:
    """The latest reign whose root is online and says so itself."""
    reigns = [
        peer.status.reign
        for name, peer in sorted(election.peers.items())
        if is_online(election, name) and peer.status.reign is not None and peer.status.reign.root == name
    ]
    return max(reigns, default=None)


def _root_lost(election: Election, last: Reign, passed_ms: int) -> NoRoot:
    """Why the root that was followed is gone; the last event was `passed_ms` ago."""
    peer = election.peers[last.root]
    return lost_root(
        last,
        peer.status.ended,
        passed_ms=passed_ms,
        stood_still_ms=election.terms.stood_still_ms,
        silent_ms=None if peer.lost else election.now_ms - peer.heard_ms,
        is_online=is_online(election, last.root),
    )


def _evaluate_reign(election: Election, heard: Reign | None, passed_ms: int) -> tuple[Election, list[ElectionEffect]]:
    """Let a root, or a primary that takes over, go on or resign."""
    own = election.reign.epoch if election.reign else election.stands_in
    if heard is not None and heard.epoch > own:
        return _resign(election, Trigger.OVERRULED, f"{heard.root} is root in the later epoch {heard.epoch}")
    there = supporters(election)
    defined = len(election.terms.primaries)
    if election.is_forced:
        # Once half of the primaries hear it again, it is a root like any other.
        return msgspec.structs.replace(election, is_forced=2 * len(there) < defined), []
    if 2 * len(there) < defined or (election.role is ElectionRole.TAKING_OVER and 2 * len(there) <= defined):
        # While this process stood still nobody could hear it: the reason is its own, not a lack of primaries.
        is_own = passed_ms > election.terms.stood_still_ms
        reason = stood_still(passed_ms) if is_own else f"only {len(there)} of {defined} primaries hear it"
        return _resign(election, Trigger.QUORUM_LOST, reason)
    if election.illness and can_spare(election):
        return _resign(election, Trigger.STEPPED_DOWN, f"its disk is ill: {election.illness}")
    return election, []


def _resign(election: Election, trigger: Trigger, reason: str) -> tuple[Election, list[ElectionEffect]]:
    """Stop being root, and become the most junior primary by a new seniority."""
    was_root = election.role is ElectionRole.ROOT
    epoch = election.reign.epoch if election.reign else election.stands_in
    election = _move(election, trigger)
    stamp = election.first_stamp_ms + max(1, election.now_ms - election.began_ms)
    seniority = Seniority(max(stamp, election.seniority.stamp_ms + 1), election.name)
    ended = Ended(epoch, reason) if was_root else election.ended
    election = msgspec.structs.replace(
        election,
        reign=None,
        stands_in=0,
        seniority=seniority,
        since_ms=election.now_ms,
        is_forced=False,
        ended=ended,
    )
    return election, [Resign(epoch, reason)] if was_root else []


def _elect(election: Election, *, is_tick: bool) -> tuple[Election, list[ElectionEffect]]:
    """Where no root is heard: stand for election, vote, or wait."""
    first = active(election)[0].name
    if first != election.name and election.stands_in:
        election = msgspec.structs.replace(election, stands_in=0)
    if not _may_vote_for(election, first):
        return election, []
    voted = election.vote.epoch if election.vote else 0
    if first != election.name:
        wanted = Reign(election.peers[first].status.stands_in, first)
        if wanted.epoch <= voted:
            return election, []
        promised = {**election.promised, first: election.now_ms}
        election = msgspec.structs.replace(election, vote=wanted, promised=promised)
        return election, [PersistVote(wanted)]
    effects: list[ElectionEffect] = []
    seen = max([election.status().epoch, *(peer.status.epoch for peer in election.peers.values())])
    if not election.stands_in or (is_tick and _is_overtaken(election)):
        # Once a heartbeat at most: two primaries that each take themselves for the most senior would leapfrog for ever.
        vote = Reign(seen + 1, election.name)
        election = msgspec.structs.replace(election, stands_in=vote.epoch, vote=vote)
        effects.append(PersistVote(vote))
    if _is_elected(election):
        voters = {name: election.peers[name].status.position for name in electorate(election) if name != election.name}
        election = _move(election, Trigger.ELECTED)
        effects.append(TakeOver(election.stands_in, voters))
    return election, effects


def _is_overtaken(election: Election) -> bool:
    """Whether a primary can vote for this candidate only in a later epoch than the one it stands in."""
    votes = (vote_of(election, name) for name in electorate(election))
    return _is_outlived(election) or any(
        vote and vote.epoch >= election.stands_in and vote.root != election.name for vote in votes
    )


def _is_outlived(election: Election) -> bool:
    """Whether the log here, or one that would be fetched, ends in a later epoch: no entry of this one could follow."""
    peers = [election.peers[name] for name in electorate(election) if name in election.peers]
    return max([election.position, *(each.status.position for each in peers)]).epoch > election.stands_in


def _is_elected(election: Election) -> bool:
    """Whether the whole electorate has voted for this primary, and is more than half of the defined primaries."""
    there = electorate(election)
    wanted = Reign(election.stands_in, election.name)
    if 2 * len(there) <= len(election.terms.primaries) or any(is_starting(election, name) for name in there):
        # A starting primary may repeat a vote of its former life, but does not know yet what its log holds.
        return False
    return not _is_outlived(election) and all(vote_of(election, name) == wanted for name in there)
