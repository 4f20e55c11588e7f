"""The elector: what an election wants done is done in its order, whatever comes up meanwhile."""

from __future__ import annotations

import pytest

from openclust.cluster.election import events
from openclust.cluster.election.elector import Elector
from openclust.cluster.election.events import ElectionEffect, Event
from openclust.cluster.election.view import ElectionRole, Terms, begin
from openclust.cluster.protocol.status import Position


class Host:
    """Notes what is to be done; at the first of a kind it tells the election something."""

    def __init__(self) -> None:
        self.elector = Elector(None, self)
        self.done: list[str] = []
        self.tells_at: dict[str, Event] = {}

    def perform(self, effect: ElectionEffect) -> None:
        name = type(effect).__name__
        self.done.append(name)
        event = self.tells_at.pop(name, None)
        if event is not None:
            self.elector.tell(event)
            self.done.append(f"{name} is done")

    def performed(self) -> None:
        self.done.append("performed")


def alone() -> Host:
    """A primary of one that is about to elect itself."""
    host = Host()
    terms = Terms(primaries=("p1",), heartbeat_ms=100, start_grace_ms=0)
    host.elector = Elector(begin(terms, "p1", 1, 0), host)
    return host


def become_root(host: Host) -> None:
    host.elector.tell(events.StoreRead(0))
    host.elector.tell(events.Tick(100))
    if host.elector.election.role is ElectionRole.TAKING_OVER:
        host.elector.tell(events.CaughtUp(100, host.elector.election.stands_in))


def test_a_primary_alone_elects_itself_and_its_vote_comes_first() -> None:
    host = alone()
    become_root(host)
    assert host.elector.election.role is ElectionRole.ROOT
    first = [name for name in host.done if name in ("PersistVote", "TakeOver", "Serve")]
    assert first == ["PersistVote", "TakeOver", "Serve"]


def test_what_comes_up_while_something_is_done_waits_for_its_turn() -> None:
    host = alone()
    host.tells_at["PersistVote"] = events.StepDown(0, "told to")
    host.elector.tell(events.StoreRead(0))
    assert "PersistVote is done" in host.done
    # Nothing that the second event wants is done inside the first one's effect.
    assert host.done.index("PersistVote is done") == host.done.index("PersistVote") + 1
    assert host.done[-1] == "performed" and host.done.count("performed") == 1


def test_after_an_error_the_next_event_is_done_again() -> None:
    host = alone()

    def fail(effect: ElectionEffect) -> None:
        raise OSError("no room")

    perform, host.perform = host.perform, fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no room"):
        host.elector.tell(events.Tick(100))
    host.perform = perform  # type: ignore[method-assign]
    host.elector.tell(events.Tick(200))
    assert host.done[-1] == "performed"


def test_an_operator_makes_a_root_that_needs_nobody() -> None:
    host = Host()
    terms = Terms(primaries=("p1", "p2", "p3"), heartbeat_ms=100, start_grace_ms=0)
    host.elector = Elector(begin(terms, "p1", 1, 0), host)
    host.elector.tell(events.StoreRead(0))
    host.elector.tell(events.Tick(5_000))
    assert not host.elector.is_forced and not host.elector.hears("p2")
    host.elector.tell(events.Force(5_000))
    assert host.elector.is_forced and "Serve" in host.done


def test_the_election_knows_where_the_log_ends() -> None:
    host = alone()
    host.elector.tell(events.Appended(0, Position(3, 7)))
    assert host.elector.election.status().position == Position(3, 7)


def test_a_secondary_hears_nobody_and_elects_nobody() -> None:
    elector = Elector(None, Host())
    assert not elector.is_primary and not elector.is_pledged and not elector.is_forced and not elector.hears("p1")
    with pytest.raises(AssertionError, match="a secondary has no election"):
        elector.tell(events.Tick(1))
