"""The rules of the election that the scenarios do not tell: the table, the order of effects, and what never happens."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from openclust.cluster.election import election as election_module
from openclust.cluster.election import events
from openclust.cluster.election.election import TRANSITIONS, Trigger, step
from openclust.cluster.election.quorum import why_no_root
from openclust.cluster.election.view import Election, ElectionRole, Terms, begin
from openclust.cluster.protocol.status import Ended, Position, Reign, Seniority
from tests.support.cluster.election_view import hear, ready, root, said, tick
from tests.support.cluster.scenario import FILES, Scenario, replay
from tests.support.examples import examples

MISSING = sorted(
    ((role, trigger) for role in ElectionRole for trigger in Trigger if (role, trigger) not in TRANSITIONS),
    key=lambda pair: (pair[0].name, pair[1].name),
)


# -- the table


@pytest.mark.parametrize(("role", "trigger"), MISSING, ids=lambda each: each.name)
def test_what_is_not_in_the_table_is_our_own_mistake(role: ElectionRole, trigger: Trigger) -> None:
    lost = Election(
        terms=Terms(primaries=("a",)), seniority=Seniority(1, "a"), now_ms=0, began_ms=0, first_stamp_ms=1, role=role
    )
    with pytest.raises(AssertionError, match="has no place for"):
        election_module._move(lost, trigger)


def test_every_transition_happens_in_some_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[ElectionRole, Trigger]] = set()
    move = election_module._move

    def watched(election: Election, trigger: Trigger) -> Election:
        seen.add((election.role, trigger))
        return move(election, trigger)

    monkeypatch.setattr(election_module, "_move", watched)
    for path in FILES:
        replay(path.read_text())
    assert seen == set(TRANSITIONS)


# -- the order of effects


def kinds(effects: list[events.ElectionEffect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def test_a_vote_is_on_disk_before_anybody_is_told() -> None:
    election = hear(tick(ready(), 2_000), 2_000, said("b", stamp_ms=1))
    _, effects = step(election, events.StatusHeard(2_001, said("b", 2, stamp_ms=1, stands_in=4, vote=Reign(4, "b"))))
    assert kinds(effects) == ["PersistVote", "Tell"]


def test_a_candidate_votes_for_itself_on_disk_before_anybody_is_told() -> None:
    _, effects = step(ready(), events.Tick(2_000))
    assert kinds(effects) == ["PersistVote", "Tell"]


def test_a_single_primary_votes_on_disk_before_it_takes_over() -> None:
    # It waits for nobody: there is no other to whom it could have promised anything.
    election, effects = step(begin(Terms(primaries=("a",)), "a", 1_000, 0), events.StoreRead(0))
    assert kinds(effects) == ["PersistVote", "TakeOver", "Tell"]
    _, effects = step(election, events.CaughtUp(1, 1))
    assert kinds(effects) == ["Serve", "Tell"]


def test_a_root_stops_before_it_says_so() -> None:
    _, effects = step(root(1_000), events.StepDown(1_001, "an operator says so"))
    assert kinds(effects)[0] == "Resign" and kinds(effects)[-1] == "Tell"


def test_a_backup_leaves_its_root_before_it_votes() -> None:
    election = hear(ready(), 1_000, said("b", reign=Reign(3, "b"), vote=Reign(3, "b")))
    assert election.role is ElectionRole.BACKUP
    _, effects = step(election, events.Tick(5_000))
    assert kinds(effects) == ["NoRoot", "PersistVote", "Tell"]


# -- why there is no root any more


def lost_root(election: Election, event: events.Event) -> events.NoRoot:
    """What a backup says of its root, of which an event takes leave."""
    _, effects = step(election, event)
    assert isinstance(effects[0], events.NoRoot), effects
    return effects[0]


def backup(now_ms: int = 1_000) -> Election:
    """A backup of b in epoch 3, that has heard it just now."""
    election = hear(ready(), now_ms, said("b", reign=Reign(3, "b"), vote=Reign(3, "b")))
    assert election.role is ElectionRole.BACKUP
    return election


def test_of_a_root_that_stepped_down_its_backups_say_why() -> None:
    told = msgspec.structs.replace(said("b", 2), ended=Ended(3, "new kernel (asked by user 'ann')"))
    lost = lost_root(backup(), events.StatusHeard(1_050, told))
    assert (lost.how, lost.is_told) == ("has given up its place: new kernel (asked by user 'ann')", True)


def test_what_a_root_said_of_an_earlier_reign_is_not_said_of_this_one() -> None:
    election = hear(ready(), 1_000, msgspec.structs.replace(said("b", reign=Reign(3, "b")), ended=Ended(2, "old")))
    lost = lost_root(election, events.PeerLost(1_050, "b"))
    assert (lost.how, lost.is_told) == ("is not heard any more: its link has ended", False)


def test_of_a_root_that_is_silent_its_backups_say_for_how_long() -> None:
    election = tick(tick(backup(), 1_100), 1_200)
    assert lost_root(election, events.Tick(1_300)).how == "is not heard any more: nothing came for 300 ms"


def test_a_backup_that_stood_still_says_so_and_does_not_blame_its_root() -> None:
    how = lost_root(backup(), events.Tick(3_000)).how
    assert how.startswith("is not heard any more: this process stood still for 2.0 s")


def test_a_root_that_stood_still_says_so_and_does_not_blame_the_others() -> None:
    _, effects = step(root(1_000), events.Tick(3_000))
    assert isinstance(effects[0], events.Resign)
    assert effects[0].reason.startswith("this process stood still for 2.0 s")


def test_a_root_that_nobody_hears_says_how_many_do() -> None:
    election, effects = root(1_000), list[events.ElectionEffect]()
    for now_ms in (1_100, 1_200, 1_300):
        election, some = step(election, events.Tick(now_ms))
        effects += some
    assert [each.reason for each in effects if isinstance(each, events.Resign)] == ["only 1 of 3 primaries hear it"]


def test_a_root_tells_why_it_has_ended_until_there_is_another() -> None:
    election, _ = step(root(1_000), events.StepDown(1_001, "new kernel"))
    assert election.status().ended == Ended(1, "new kernel")
    election = hear(election, 1_100, said("b", 9, reign=Reign(4, "b"), vote=Reign(4, "b")))
    assert election.role is ElectionRole.BACKUP and election.status().ended is None


# -- votes and promises


def test_a_vote_is_given_once_an_epoch() -> None:
    election = hear(tick(ready(), 2_000), 2_000, said("b", stamp_ms=2, stands_in=4, vote=Reign(4, "b")))
    assert election.vote == Reign(4, "b")
    election = hear(election, 3_000, said("c", stamp_ms=1, stands_in=4, vote=Reign(4, "c")))
    assert election.vote == Reign(4, "b")


def test_a_vote_that_its_store_holds_binds_who_starts_again() -> None:
    election, _ = step(begin(Terms(primaries=("a", "b", "c")), "a", 10, 0, Reign(4, "c")), events.StoreRead(1))
    election = hear(election, 150, said("b", stamp_ms=1, stands_in=4, vote=Reign(4, "b")))
    election = tick(election, 200)
    assert election.vote == Reign(4, "c")
    election = hear(election, 201, said("b", 2, stamp_ms=1, stands_in=5, vote=Reign(5, "b")))
    assert election.vote == Reign(5, "b")


def test_who_just_started_votes_for_nobody_until_a_root_of_its_former_life_is_over() -> None:
    election = hear(ready(), 100, said("b", stamp_ms=1, stands_in=4, vote=Reign(4, "b")))
    assert tick(election, 199).vote is None
    assert tick(election, 200).vote == Reign(4, "b")


def test_who_heard_a_root_votes_for_no_other_until_the_wait_is_over() -> None:
    election = hear(ready(), 1_000, said("b", reign=Reign(1, "b"), vote=Reign(1, "b")))
    election, _ = step(election, events.PeerLost(1_001, "b"))
    assert tick(election, 1_199).vote is None
    assert tick(election, 1_200).vote == Reign(2, "a")


def test_a_root_that_says_it_resigned_is_waited_for_no_longer() -> None:
    election = hear(ready(), 1_000, said("b", reign=Reign(1, "b"), vote=Reign(1, "b")))
    election = hear(election, 1_001, said("b", 2, stamp_ms=500, vote=Reign(1, "b")))
    assert election.vote == Reign(2, "a")


def test_what_one_root_says_frees_no_promise_to_another() -> None:
    election = hear(ready(), 1_000, said("b", reign=Reign(2, "b"), vote=Reign(2, "b")))
    election = hear(election, 1_001, said("c", reign=Reign(1, "c"), vote=Reign(1, "c")), said("c", 2, stamp_ms=900))
    election, _ = step(election, events.PeerLost(1_002, "b"))
    assert election.vote is None
    assert tick(election, 1_200).vote == Reign(3, "a")


def test_the_root_is_answered_at_once_and_nobody_else_is() -> None:
    mine = Reign(1, "b")
    election = hear(ready(), 1_000, said("b", reign=mine, vote=mine), said("c", reign=mine, vote=mine))
    _, effects = step(election, events.StatusHeard(1_100, said("b", 2, reign=mine, vote=mine)))
    assert [effect.name for effect in effects if isinstance(effect, events.TellPeer)] == ["b"]
    _, effects = step(election, events.StatusHeard(1_100, said("c", 2, reign=mine, vote=mine)))
    assert effects == []


def test_a_candidate_asks_its_voters_for_what_they_hold() -> None:
    vote = Reign(4, "a")
    election = tick(hear(tick(ready(), 2_000), 2_000, said("b", position=Position(3, 9)), said("c")), 2_000)
    election = hear(election, 2_000, said("b", 2, vote=vote, position=Position(3, 9)))
    _, effects = step(election, events.StatusHeard(2_000, said("c", 2, vote=vote)))
    assert events.TakeOver(4, {"b": Position(3, 9), "c": Position()}) in effects


def test_nobody_is_elected_while_a_voter_starts() -> None:
    vote = Reign(1, "a")
    election = hear(tick(ready(), 2_000), 2_000, said("b"), said("c"))
    election = hear(election, 2_000, said("b", 2, vote=vote), said("c", 2, phase="starting", vote=vote))
    assert election.role is ElectionRole.ELECTOR
    assert hear(election, 2_001, said("c", 3, vote=vote)).role is ElectionRole.TAKING_OVER


def test_news_of_another_epoch_makes_nobody_serve() -> None:
    election = tick(ready(terms=Terms(primaries=("a",))), 200)
    election, effects = step(election, events.CaughtUp(201, 7))
    assert election.role is ElectionRole.TAKING_OVER and effects == []


def test_who_caught_up_when_its_voters_are_silent_does_not_serve() -> None:
    vote = Reign(1, "a")
    election = hear(tick(ready(), 2_000), 2_000, said("b"), said("c"))
    heard = election.number
    election = hear(election, 2_000, *(said(name, 2, vote=vote, heard=heard) for name in ("b", "c")))
    assert election.role is ElectionRole.TAKING_OVER
    in_time, effects = step(election, events.CaughtUp(2_180, 1))
    assert in_time.role is ElectionRole.ROOT and events.Serve(1) in effects
    late, effects = step(election, events.CaughtUp(2_181, 1))
    assert late.role is ElectionRole.ELECTOR and "Serve" not in kinds(effects)


def test_a_resigned_root_is_the_last_in_line() -> None:
    election, _ = step(root(1_000), events.StepDown(1_500, "its disk stalls"))
    assert election.seniority == Seniority(1_510, "a")


def test_a_backup_has_nothing_to_step_down_from() -> None:
    election = hear(ready(), 1_000, said("b", reign=Reign(1, "b"), vote=Reign(1, "b")))
    after, effects = step(election, events.StepDown(1_001, "its disk stalls"))
    assert after.role is ElectionRole.BACKUP and effects == []


def test_time_never_runs_backwards() -> None:
    assert tick(tick(ready(), 500), 400).now_ms == 500


# -- anything may happen: the scenario's own checks watch for two roots and for two votes in an epoch

NAMES = ("a", "b", "c", "d")


class Anything(RuleBasedStateMachine):
    """Primaries that start, die, stall and lose links in any order; at last all is well, and there is one root."""

    def __init__(self) -> None:
        super().__init__()
        self.scenario = Scenario()

    def play(self, line: str) -> None:
        self.scenario.play(line)
        for name in self.awake():
            if self.scenario.members[name].role is ElectionRole.TAKING_OVER:
                self.scenario.play(f"caught-up {name}")

    def running(self) -> list[str]:
        return sorted(self.scenario.members)

    def awake(self) -> list[str]:
        return [name for name in self.running() if name not in self.scenario.stalled]

    @initialize(count=st.integers(2, 4))
    def defined(self, count: int) -> None:
        self.play(f"primaries {' '.join(NAMES[:count])} start_grace_ms=500")
        for name in self.scenario.terms.primaries:
            self.play(f"start {name}")
            self.play(f"ready {name}")

    @rule(ms=st.integers(1, 150))
    def time_passes(self, ms: int) -> None:
        self.play(f"tick {ms}")

    @rule(beats=st.integers(1, 4))
    def all_is_quiet(self, beats: int) -> None:
        for _ in range(beats):
            self.play("run 100")

    @rule(pair=st.permutations(NAMES))
    def a_link_carries(self, pair: list[str]) -> None:
        self.play(f"deliver {pair[0]}->{pair[1]}")

    @rule(pair=st.permutations(NAMES), what=st.sampled_from(["cut", "heal", "hold", "release"]))
    def a_link_changes(self, pair: list[str], what: str) -> None:
        self.play(f"{what} {pair[0]}->{pair[1]}")

    @precondition(lambda self: self.scenario.members)
    @rule(data=st.data(), what=st.sampled_from(["stall", "resume", "kill"]))
    def a_process_suffers(self, data: st.DataObject, what: str) -> None:
        self.play(f"{what} {data.draw(st.sampled_from(self.running()))}")

    @rule(pair=st.permutations(NAMES))
    def a_link_ends(self, pair: list[str]) -> None:
        if pair[0] in self.awake():
            self.play(f"cut {pair[1]}->{pair[0]}")
            self.play(f"loses {pair[0]} {pair[1]}")

    @rule()
    def whoever_is_root_is_told_to_step_down(self) -> None:
        for name in self.awake():
            self.play(f"step-down {name} an operator says so")

    @rule()
    def who_is_down_starts(self) -> None:
        for name in self.scenario.terms.primaries:
            if name not in self.scenario.members:
                self.play("tick 1")
                self.play(f"start {name}")
                self.play(f"ready {name}")

    @invariant()
    def without_a_root_somebody_is_named(self) -> None:
        for election in self.scenario.members.values():
            assert election.reign is not None or why_no_root(election)

    def teardown(self) -> None:
        if not self.scenario.terms.primaries[1:]:
            return
        self.who_is_down_starts()
        self.scenario.play("resume " + " ".join(NAMES))
        self.scenario.held.clear()
        self.play("heal all")
        for _ in range(20):
            self.play("run 100")
        roles = [each.role for each in self.scenario.members.values()]
        assert roles.count(ElectionRole.ROOT) == 1 and roles.count(ElectionRole.BACKUP) == len(roles) - 1, (
            self.scenario.play("show")
        )


TestAnything = Anything.TestCase
TestAnything.settings = examples(30, step_count=40)


# -- epochs that nobody remembers


def test_a_candidate_stands_in_a_later_epoch_than_that_of_its_log() -> None:
    """All who voted in it may have lost their disks: entries of a new reign must not come before those of an older."""
    election, _ = step(ready(), events.Appended(0, Position(7, 3)))
    election = hear(tick(election, 2_000), 2_000, said("b", stamp_ms=20_000))
    assert election.stands_in == 8


@pytest.mark.parametrize("whose", ["its own", "a voter's"])
def test_a_candidate_stands_anew_when_a_log_of_a_later_epoch_comes_up(whose: str) -> None:
    election = hear(tick(ready(), 2_000), 2_000, said("b", stamp_ms=20_000))
    assert election.stands_in == 1
    position = Position(7, 3)
    if whose == "its own":
        election, _ = step(election, events.Appended(2_000, position))
        position = Position()
    vote = Reign(1, "a")
    election = hear(election, 2_010, said("b", 2, stamp_ms=20_000, vote=vote, position=position, heard=election.number))
    assert election.role is ElectionRole.ELECTOR, "that vote is for an epoch that is over"
    assert tick(election, 2_100).stands_in == 8


def test_who_holds_entries_of_an_epoch_has_seen_it() -> None:
    assert said("b").epoch == 0
    assert said("b", position=Position(9, 1)).epoch == 9


# -- clocks that are wrong


def behind(election: Election) -> bool:
    """Whether b, whose stamp is 20,000, is senior to it by now."""
    return election.seniority > Seniority(20_000, "b")


@pytest.mark.parametrize(("held_ms", "is_behind"), [(1_444, False), (1_447, True), (10**9, True)])
def test_who_was_there_before_is_senior_whatever_the_clocks_say(held_ms: int, is_behind: bool) -> None:
    """Beyond what clocks may run unlike, and statuses be late."""
    election = hear(tick(ready(), 1_000), 1_000, said("b", stamp_ms=20_000, held_ms=held_ms))
    assert behind(election) is is_behind


def test_people_are_told_by_how_much_clocks_differ() -> None:
    _, effects = step(tick(ready(), 1_000), events.StatusHeard(1_000, said("b", stamp_ms=20_000, held_ms=61_000)))
    assert effects[0] == events.ClocksDiffer("b", 20_000 - ready().seniority.stamp_ms + 60_000)
    assert "ClocksDiffer" not in kinds(step(tick(ready(), 1_000), events.StatusHeard(1_000, said("b", held_ms=0)))[1])


def test_who_resigns_is_behind_where_it_was_whatever_its_clock_says() -> None:
    election = root()
    election = hear(election, election.now_ms + 1, said("b", 9, stamp_ms=20_000, held_ms=10**6))
    assert behind(election)
    resigned, _ = step(election, events.StepDown(election.now_ms + 1, "told to"))
    assert resigned.seniority > election.seniority
    assert resigned.status().held_ms == 0, "its place is a new one"


def test_a_stranger_makes_nobody_go_behind_it() -> None:
    election = hear(tick(ready(), 1_000), 1_000, said("z", stamp_ms=20_000, held_ms=10**9))
    assert not behind(election)
