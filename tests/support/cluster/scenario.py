"""Golden scenarios: files of commands to a few primaries, and below each command what it brought about.

`python -m tests.support.cluster.scenario --rewrite FILE...` writes what happens now into the files, for a person to
read the difference; without `--rewrite` it prints it. A line that begins with `#` is for people, an indented line is
the trace.
Statuses travel only with `deliver` and `run`; time passes only with `tick`, `wake`, `run` and `start ... at`.

    primaries a b c [start_grace_ms=0 ...]   defines the cluster; first of all
    start a [at 1000] [stamp 900]            starts a process, with the vote that its disk holds
    ready a b                                their stores are read
    given a is root                          all defined start, a most senior, and elect it; without a trace
    stranger s tells a                       a broker that is no primary claims to be the most senior one
    tick 100 [a b]                           the clock goes on; all who run (or those named) get a heartbeat
    wake a                                   the clock goes to the end of a's lease, and a is woken there
    deliver all | deliver a->b               statuses arrive: all and the answers to them, or what one link carries now
    run 500                                  a tick and `deliver all` every heartbeat
    cut a->b c-d | heal a->b | heal all      what is sent over a cut link is lost
    hold a->b | release a->b                 what is sent over a held link arrives late
    loses b a                                b notices that the link from a has ended
    kill a [noticed by b c]                  the process ends
    stall a | resume a                       its loop stands still
    append a 1:5                             its log ends there now
    caught-up a                              it has fetched what its voters hold
    step-down a WHY...                       an operator says so
    disk a [WHY...]                          what ails its disk; it is well without
    force a                                  an operator makes it root, whoever is missing
    tells on | tells off                     whether the trace shows statuses that are sent
    show [a b] | why a                       roles and who supports whom; why there is no root
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from openclust.cluster.election import events
from openclust.cluster.election.election import step
from openclust.cluster.election.events import ElectionEffect, Event
from openclust.cluster.election.lease import lease_end_ms, serves, supporters
from openclust.cluster.election.quorum import why_no_root
from openclust.cluster.election.view import Election, ElectionRole, Terms, begin
from openclust.cluster.protocol.status import Position, Reign, Seniority, Status
from tests.support.paths import TESTS

FILES = sorted((TESTS / "scenarios").glob("*.txt"))
INDENT = "    "


class Broken(AssertionError):
    """What must never happen, whatever a scenario says."""


class Scenario:
    """A few primaries, the links between them and one clock."""

    def __init__(self) -> None:
        self.terms = Terms(primaries=("a",))
        self.now_ms = 0
        self.members: dict[str, Election] = {}
        self.disks: dict[str, Reign] = {}
        self.positions: dict[str, Position] = {}
        self.stalled: set[str] = set()
        self.cuts: set[tuple[str, str]] = set()
        self.held: set[tuple[str, str]] = set()
        self.links: dict[tuple[str, str], list[Status]] = {}
        self.roots: dict[int, str] = {}
        self.votes: dict[tuple[str, int], str] = {}
        self.shows_tells = False
        self.trace: list[str] = []

    def play(self, line: str) -> list[str]:
        """Obey one command; what it brought about."""
        word, *rest = line.split()
        command: Callable[[list[str]], None] | None = getattr(self, "do_" + word.replace("-", "_"), None)
        if command is None:
            raise ValueError(f"no such command: {line}")
        self.trace = []
        command(rest)
        return self.trace

    # -- commands

    def do_primaries(self, words: list[str]) -> None:
        options = {key: int(value) for key, _, value in (each.partition("=") for each in words if "=" in each)}
        names = tuple(each for each in words if "=" not in each)
        self.terms = msgspec.convert({"primaries": names, **options}, Terms)

    def do_start(self, words: list[str]) -> None:
        name, options = words[0], dict(zip(words[1::2], words[2::2], strict=True))
        self._go_to(int(options.get("at", self.now_ms)))
        stamp_ms = int(options.get("stamp", self.now_ms))
        self.members[name] = begin(self.terms, name, stamp_ms, self.now_ms, self.disks.get(name))

    def do_ready(self, words: list[str]) -> None:
        for name in words:
            if name in self.positions:
                self._step(name, events.Appended(self.now_ms, self.positions[name]))
            self._step(name, events.StoreRead(self.now_ms))

    def do_given(self, words: list[str]) -> None:
        others = [each for each in self.terms.primaries if each != words[0]]
        self._go_to(1_000)
        for name in [words[0], *others]:
            self.do_start([name, "at", str(self.now_ms + 10)])
        self.do_ready(list(self.terms.primaries))
        self.do_run(["300"])
        self.do_caught_up(words[:1])
        self.do_run(["100"])
        assert self.members[words[0]].role is ElectionRole.ROOT, self.trace
        self.trace = []

    def do_stranger(self, words: list[str]) -> None:
        vote = Reign(99, words[0])
        status = Status(number=1, seniority=Seniority(1, words[0]), phase="active", stands_in=99, vote=vote, reign=vote)
        self._step(words[2], events.StatusHeard(self.now_ms, status))

    def do_tick(self, words: list[str]) -> None:
        self._go_to(self.now_ms + int(words[0]))
        for name in words[1:] or sorted(self.members):
            if name not in self.stalled:
                self._step(name, events.Tick(self.now_ms))

    def do_wake(self, words: list[str]) -> None:
        self._go_to(lease_end_ms(self.members[words[0]]) + 1)
        self._step(words[0], events.Tick(self.now_ms))

    def do_deliver(self, words: list[str]) -> None:
        if words != ["all"]:
            for link in _links(words):
                self._arrive(link, len(self.links.get(link, [])))
            return
        for _ in range(1_000):
            waiting = [link for link in sorted(self.links) if self.links[link] and self._is_open(link)]
            if not waiting:
                return
            for link in waiting:
                self._arrive(link, 1)
        raise Broken("the primaries talk without end")

    def do_run(self, words: list[str]) -> None:
        for _ in range(int(words[0]) // self.terms.heartbeat_ms):
            self.do_tick([str(self.terms.heartbeat_ms)])
            self.do_deliver(["all"])

    def do_cut(self, words: list[str]) -> None:
        self.cuts |= set(_links(words))
        for link in _links(words):
            self.links.pop(link, None)

    def do_heal(self, words: list[str]) -> None:
        self.cuts -= self.cuts if words == ["all"] else set(_links(words))

    def do_hold(self, words: list[str]) -> None:
        self.held |= set(_links(words))

    def do_release(self, words: list[str]) -> None:
        self.held -= set(_links(words))

    def do_loses(self, words: list[str]) -> None:
        for name in words[1:]:
            self._step(words[0], events.PeerLost(self.now_ms, name))

    def do_kill(self, words: list[str]) -> None:
        name = words[0]
        del self.members[name]
        self.stalled.discard(name)
        self.links = {link: waiting for link, waiting in self.links.items() if name not in link}
        for other in words[3:]:
            self._step(other, events.PeerLost(self.now_ms, name))

    def do_stall(self, words: list[str]) -> None:
        self.stalled |= set(words)

    def do_resume(self, words: list[str]) -> None:
        self.stalled -= set(words)

    def do_append(self, words: list[str]) -> None:
        epoch, sequence = words[1].split(":")
        self.positions[words[0]] = Position(int(epoch), int(sequence))
        self._step(words[0], events.Appended(self.now_ms, self.positions[words[0]]))

    def do_caught_up(self, words: list[str]) -> None:
        epoch = int(words[1]) if words[1:] else self.members[words[0]].stands_in
        self._step(words[0], events.CaughtUp(self.now_ms, epoch))

    def do_step_down(self, words: list[str]) -> None:
        self._step(words[0], events.StepDown(self.now_ms, " ".join(words[1:])))

    def do_disk(self, words: list[str]) -> None:
        self._step(words[0], events.DiskIs(self.now_ms, " ".join(words[1:])))

    def do_force(self, words: list[str]) -> None:
        self._step(words[0], events.Force(self.now_ms))

    def do_tells(self, words: list[str]) -> None:
        self.shows_tells = words == ["on"]

    def do_show(self, words: list[str]) -> None:
        for name in words or self.terms.primaries:
            self.trace.append(self._shown(name))

    def do_why(self, words: list[str]) -> None:
        reasons = why_no_root(self.members[words[0]])
        self.trace += [f"{name} {reason}" for name, reason in reasons] or ["there is a root"]

    # -- what happens

    def _go_to(self, now_ms: int) -> None:
        if now_ms < self.now_ms:
            raise ValueError(f"it is {self.now_ms} already")
        self.now_ms = now_ms
        self._check()

    def _step(self, name: str, event: Event) -> None:
        before = self.members[name]
        after, effects = step(before, event)
        self.members[name] = after
        for effect in effects:
            self._perform(name, effect)
        if after.role is not before.role:
            self.trace.append(f"{name}: {before.role.value} -> {after.role.value}")
        if after.seniority != before.seniority:
            self.trace.append(f"{name}: seniority is {after.seniority.stamp_ms} now, not {before.seniority.stamp_ms}")
        self._check()

    def _perform(self, name: str, effect: ElectionEffect) -> None:
        match effect:
            case events.ClocksDiffer():
                self._says(
                    name, f"its clock and {effect.name}'s differ by {effect.by_ms} ms, goes behind {effect.name}"
                )
            case events.PersistVote():
                if self.votes.setdefault((name, effect.vote.epoch), effect.vote.root) != effect.vote.root:
                    raise Broken(f"{name} votes twice in epoch {effect.vote.epoch}")
                self.disks[name] = effect.vote
                self._says(name, f"persist vote for {effect.vote.root} in epoch {effect.vote.epoch}")
            case events.Tell():
                self._send(name, [each for each in self.terms.primaries if each != name], effect.status)
            case events.TellPeer():
                self._send(name, [effect.name], effect.status)
            case events.TakeOver():
                tails = (f"{each} {at.epoch}:{at.sequence}" for each, at in effect.voters.items())
                self._says(name, f"take over in epoch {effect.epoch}, voters {', '.join(tails) or 'none'}")
            case events.Serve():
                if self.roots.setdefault(effect.epoch, name) != name:
                    raise Broken(f"epoch {effect.epoch} has two roots")
                self._says(name, f"serve in epoch {effect.epoch}")
            case events.Resign():
                self._says(name, f"resign from epoch {effect.epoch}: {effect.reason}")
            case events.Follow():
                self._says(name, f"follow {effect.reign.root} in epoch {effect.reign.epoch}")
            case events.NoRoot():
                self._says(name, f"no root after {effect.last.root} of epoch {effect.last.epoch}")

    def _says(self, name: str, what: str) -> None:
        self.trace.append(f"{name}: {what}")

    def _send(self, name: str, others: list[str], status: Status) -> None:
        if status.vote is not None and self.disks.get(name) != status.vote:
            raise Broken(f"{name} tells of a vote that is not on disk")
        if self.shows_tells:
            self._says(name, f"tell {' '.join(others)}: {_summary(status)}")
        for other in others:
            if (name, other) not in self.cuts:
                self.links.setdefault((name, other), []).append(status)

    def _is_open(self, link: tuple[str, str]) -> bool:
        return link not in self.held and link[1] not in self.stalled

    def _arrive(self, link: tuple[str, str], count: int) -> None:
        waiting = self.links.get(link, [])
        self.links[link] = waiting[count:]
        if link[1] in self.members:
            for status in waiting[:count]:
                self._step(link[1], events.StatusHeard(self.now_ms, status))

    def _check(self) -> None:
        serving = [name for name, each in sorted(self.members.items()) if serves(each, self.now_ms)]
        if len(serving) > 1:
            raise Broken(f"at {self.now_ms} there are two roots that serve: {' and '.join(serving)}")

    def _shown(self, name: str) -> str:
        election = self.members.get(name)
        if election is None:
            return f"{name}: down"
        says = [election.role.value]
        if election.reign is not None:
            whose = "" if election.reign.root == name else f" of {election.reign.root}"
            says[0] += f"{whose} in epoch {election.reign.epoch}"
        if election.stands_in:
            says.append(f"stands in epoch {election.stands_in}")
        if election.role in (ElectionRole.ROOT, ElectionRole.TAKING_OVER):
            says.append(f"supported by {' '.join(supporters(election))}")
        if election.role is ElectionRole.ROOT and not serves(election, self.now_ms):
            says.append("must not serve")
        return f"{name}: {', '.join(says)}"


def _summary(status: Status) -> str:
    says: list[str] = [status.phase]
    if status.stands_in:
        says.append(f"stands in {status.stands_in}")
    if status.vote is not None:
        says.append(f"voted for {status.vote.root} in {status.vote.epoch}")
    if status.reign is not None:
        says.append(f"root is {status.reign.root} in {status.reign.epoch}")
    return ", ".join(says)


def _links(words: list[str]) -> Iterator[tuple[str, str]]:
    """Each link named: `a->b` one way, `a-b` both."""
    for word in words:
        one_way = "->" in word
        first, second = word.split("->" if one_way else "-")
        yield first, second
        if not one_way:
            yield second, first


def replay(text: str) -> str:
    """The scenario with the trace of what happens now."""
    scenario, lines = Scenario(), []
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [INDENT + each for each in scenario.play(line)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    rewrites = "--rewrite" in sys.argv
    for path in [Path(each) for each in sys.argv[1:] if each != "--rewrite"] or FILES:
        played = replay(path.read_text())
        if rewrites:
            path.write_text(played)
        else:
            print(f"== {path.name}\n{played}")
