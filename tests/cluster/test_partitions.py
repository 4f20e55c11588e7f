"""Real processes on a network that is cut without a word: at no time two roots, and one when it is whole again."""

from __future__ import annotations

import contextlib
import http.client
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from openclust.cli.cluster.local_cluster import LocalBroker, LocalCluster
from tests.support.cluster.cut_network import CutNetwork, check_tools
from tests.support.cluster.running_cluster import ASK_WAIT_S, POLL_S, START_WAIT_S, Primary, RunningCluster

pytestmark = pytest.mark.sockets

CUTS = int(os.environ.get("OPENCLUST_TEST_CUTS", "1"))
POLLING_S = 0.3
"""What asking may add, on a machine with other things to do."""
NEW_ROOT_WITHIN_S = 0.4 + POLLING_S
LEASE_S = 0.18 + POLLING_S
LONG_CUT_S = 14.0
CUT_S = float(os.environ.get("OPENCLUST_TEST_CUT_S", "1"))
HEALED_WITHIN_S = 10.0
WATCHED_S = 0.5

Seen = dict[str, dict[str, Any]]
"""What each said that answered."""


class ApartCluster(LocalCluster, frozen=True, kw_only=True):
    """Every primary in a namespace, with its HTTP API on the loopback there, where the guest may ask."""

    network: CutNetwork

    def configuration(self) -> str:
        parts = [f'[cluster]\nsecret_file = "{self.folder / "secret"}"\n']
        for each in self.primaries:
            address = self.network.addresses[each.name]
            parts.append(
                f"[cluster.primaries.{each.name}]\n"
                f'client = "{address}:{each.client_port}"\n'
                f'peer = "{address}:{each.peer_port}"\n'
                f'http = "127.0.0.1:{each.http_port}"\n'
            )
        return "\n".join(parts)

    def command(self, broker: LocalBroker) -> list[str]:
        return self.network.command(broker.name, super().command(broker))


class ApartPrimary(Primary):
    """A primary that is asked from inside its namespace, so that no cut keeps it from answering."""

    def __init__(self, cluster: ApartCluster, place: LocalBroker) -> None:
        super().__init__(cluster, place)
        self._network = cluster.network

    def question(self) -> bool:
        if self._asking is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.place.http_port, timeout=ASK_WAIT_S)
            connection.auto_open = 0
            try:
                connection.sock = self._network.connect(self.name, self.place.http_port, ASK_WAIT_S)
            except OSError:
                return False
            self._asking = connection
        return super().question()

    def why_no_root(self) -> list[str]:
        command = [sys.executable, "-m", "openclust", "why-no-root", "--url", self.place.http_url]
        done = subprocess.run(self._network.command(self.name, command), capture_output=True, text=True, timeout=30)
        assert done.returncode == 1, done
        return done.stdout.splitlines()


class Reign(NamedTuple):
    """Somebody was root from `since` at the latest to `until` at the earliest."""

    name: str
    epoch: int
    since: float
    until: float


class Partitions(RunningCluster):
    """The cluster and its network. Every answer is kept, to find two that were root at once."""

    def __init__(self, cluster: ApartCluster) -> None:
        super().__init__(cluster)
        self.network = cluster.network
        self.apart = {place.name: ApartPrimary(cluster, place) for place in cluster.primaries}
        self.primaries = dict(self.apart)
        self.reigns: list[Reign] = []
        self._sitting: dict[str, Reign] = {}

    def ask_all(self) -> Seen:
        """All are asked before the first answer is read."""
        asked = {name: time.monotonic() for name, each in self.primaries.items() if each.is_running and each.question()}
        seen: Seen = {}
        for name, at in asked.items():
            answer = self.primaries[name].answer()
            if answer is not None:
                seen[name] = answer
                self._note(answer, at, time.monotonic())
        return seen

    def _note(self, seen: dict[str, Any], asked: float, answered: float) -> None:
        name = seen["name"]
        sitting = self._sitting.pop(name, None)
        if seen["role"] == "root":
            if sitting is None or sitting.epoch != seen["epoch"]:
                sitting = Reign(name, seen["epoch"], answered, asked)
            self._sitting[name] = sitting._replace(until=asked)
        elif sitting is not None:
            self.reigns.append(sitting)

    def check_one_at_a_time(self) -> None:
        """No two reigns that cannot have been one after the other."""
        reigns = sorted([*self.reigns, *self._sitting.values()], key=lambda reign: reign.since)
        for number, one in enumerate(reigns):
            for other in reigns[:number]:
                if one.name != other.name and one.until >= other.since and other.until >= one.since:
                    self.reigns, self._sitting = [], {}
                    raise AssertionError(f"two roots at once: {other}, {one}\n{self.logs()}")

    def watch(self, condition: Callable[[Seen], bool], within_s: float, what: str) -> float:
        """Ask until it is so; when the last answers came (time.monotonic)."""
        end = time.monotonic() + within_s
        while True:
            seen = self.ask_all()
            now = time.monotonic()
            if condition(seen):
                return now
            if now > end:
                self.check_one_at_a_time()
                raise AssertionError(f"not within {within_s} s: {what}; {shown(seen)}\n{self.logs()}")
            time.sleep(POLL_S)

    def watch_for(self, watched_s: float) -> Seen:
        """Ask for so long; the last answers."""
        end = time.monotonic() + watched_s
        while time.monotonic() < end:
            seen = self.ask_all()
            time.sleep(POLL_S)
        self.check_one_at_a_time()
        return seen

    def heal(self) -> float:
        """Make the network whole: the seconds until all follow one root and hear each other."""
        began = time.monotonic()
        self.network.heal()
        return self.watch(self.is_whole, HEALED_WITHIN_S, "all follow one root") - began

    def is_whole(self, seen: Seen) -> bool:
        count = len(self.primaries)
        return (
            sorted(each["role"] for each in seen.values()) == ["backup"] * (count - 1) + ["root"]
            and len({each["root"] for each in seen.values()}) == 1
            and all(each["votes"]["following"] == each["votes"]["electorate"] == count for each in seen.values())
        )


def shown(seen: Seen) -> str:
    return ", ".join(f"{name} is {each['role']} (root {each['root']})" for name, each in sorted(seen.items()))


def root_of(seen: Seen) -> list[str]:
    return [name for name, each in seen.items() if each["role"] == "root"]


def is_no_root(name: str) -> Callable[[Seen], bool]:
    return lambda seen: name in seen and seen[name]["role"] != "root"


def has_another_root(old: str) -> Callable[[Seen], bool]:
    return lambda seen: root_of(seen) not in ([], [old])


def summary(what: str, times_s: list[float]) -> str:
    ms = sorted(round(each * 1_000) for each in times_s)
    return f"{what} {statistics.median(ms):.0f} ms (median), {ms[-1]} ms (worst)"


@contextlib.contextmanager
def apart(folder: Path, count: int) -> Iterator[Partitions]:
    """So many primaries that have a root, each on a network of its own. All is ended and removed, whatever happened."""
    check_tools()
    names = [f"p{number}" for number in range(1, count + 1)]
    places = tuple(LocalBroker(name, 5672, 5682, 15672 + number) for number, name in enumerate(names))
    network = CutNetwork(names)
    plan = ApartCluster(cluster_key="test", folder=folder, primaries=places, network=network)
    try:
        network.open()
        plan.write()
        (folder / "secret").write_text("only for this test", encoding="utf-8")
        cluster = Partitions(plan)
        try:
            for each in cluster.primaries.values():
                each.start()
            cluster.watch(cluster.is_whole, START_WAIT_S, "a first root")
            yield cluster
            cluster.check_one_at_a_time()
        finally:
            network.heal()
            for each in cluster.primaries.values():
                each.stop()
    finally:
        network.close()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partitions]:
    with apart(tmp_path_factory.mktemp("three"), 3) as running:
        yield running


@pytest.fixture
def cluster(three: Partitions) -> Partitions:
    """Whole, whatever the last test left."""
    three.heal()
    return three


def test_a_root_that_is_cut_off_stops_before_another_serves(
    cluster: Partitions, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped, served, healed = [], [], []
    for _ in range(CUTS):
        (old,) = root_of(cluster.ask_all())
        began = time.monotonic()
        cluster.network.cut_off(old)
        stopped.append(cluster.watch(is_no_root(old), 5.0, f"{old} is no root") - began)
        served.append(cluster.watch(has_another_root(old), 5.0, "another root") - began)
        seen = cluster.watch_for(CUT_S - served[-1])
        (new,) = root_of(seen)
        assert seen[old]["role"] == "elector"
        assert seen[old]["root"] is None
        assert {each["root"] for name, each in seen.items() if name != old} == {new}
        healed.append(cluster.heal())
        seen = cluster.watch_for(WATCHED_S)
        assert root_of(seen) == [new], f"who comes back takes nothing from a sitting root: {shown(seen)}"
        assert seen[old]["role"] == "backup"
    text = (
        f"{CUTS} cuts of the root: {summary('it stopped after', stopped)}; {summary('another after', served)}; "
        f"{summary('all in line when healed after', healed)}"
    )
    with capsys.disabled():
        print(f"\n{text}")
    assert max(stopped) < LEASE_S, text
    assert max(served) < NEW_ROOT_WITHIN_S, text


def test_a_long_cut_heals_as_a_short_one(cluster: Partitions) -> None:
    (old,) = root_of(cluster.ask_all())
    cluster.network.cut_off(old)
    cluster.watch(has_another_root(old), 5.0, "another root")
    # Long enough for TCP to try again only every ten seconds and more.
    cluster.watch_for(LONG_CUT_S)
    assert cluster.heal() < 5.0


def mute(network: CutNetwork, root: str, backups: list[str]) -> None:
    network.silence(root, *backups)


def deaf(network: CutNetwork, root: str, backups: list[str]) -> None:
    for backup in backups:
        network.silence(backup, root)


def mute_to_one(network: CutNetwork, root: str, backups: list[str]) -> None:
    network.silence(root, backups[0])


def deaf_to_one(network: CutNetwork, root: str, backups: list[str]) -> None:
    network.silence(backups[0], root)


@pytest.mark.parametrize(("cut", "stays"), [(mute, False), (deaf, False), (mute_to_one, True), (deaf_to_one, True)])
def test_a_cut_in_one_direction_brings_no_second_root(
    cluster: Partitions,
    capsys: pytest.CaptureFixture[str],
    cut: Callable[[CutNetwork, str, list[str]], None],
    stays: bool,
) -> None:
    (old,) = root_of(cluster.ask_all())
    epoch = cluster.epoch()
    backups = sorted(set(cluster.primaries) - {old})
    began = time.monotonic()
    cut(cluster.network, old, backups)
    if not stays:
        served_s = cluster.watch(has_another_root(old), 5.0, "another root") - began
    seen = cluster.watch_for(CUT_S)
    with capsys.disabled():
        print(f"\n{cut.__name__}: {shown(seen)}" + ("" if stays else f"; after {served_s * 1_000:.0f} ms"))
    assert (root_of(seen) == [old]) is stays
    cluster.heal()
    seen = cluster.watch_for(WATCHED_S)
    if stays:
        assert cluster.epoch() == epoch, "nobody else was elected"


def test_halves_elect_nobody_and_say_who_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with apart(tmp_path, 4) as cluster:
        names = sorted(cluster.primaries)
        epoch = cluster.epoch()
        cluster.network.cut_off(*names)
        cluster.watch(lambda seen: not root_of(seen), 5.0, "no root where nobody hears anybody")
        cluster.network.move("left", *names[:2])
        cluster.network.move("right", *names[2:])
        cluster.watch(lambda seen: halved(seen, names), HEALED_WITHIN_S, "each hears its half")
        seen = cluster.watch_for(CUT_S)
        assert root_of(seen) == [], shown(seen)
        assert all(each["root"] is None and each["why_no_root"] for each in seen.values())
        for each, missing in ((names[0], names[2:]), (names[3], names[:2])):
            lines = cluster.apart[each].why_no_root()
            assert all(f"{name} is offline" in lines for name in missing), lines
        healed_s = cluster.heal()
        with capsys.disabled():
            print(f"\nhalves of four made one: a root that all follow after {healed_s * 1_000:.0f} ms")
        assert len(root_of(cluster.watch_for(WATCHED_S))) == 1
        assert cluster.epoch() > epoch


def halved(seen: Seen, names: list[str]) -> bool:
    """Whether each is heard by its half, and by nobody else."""
    return all(
        name in seen and [each["name"] for each in seen[name]["brokers"] if each["online"]] == half
        for half in (names[:2], names[2:])
        for name in half
    )
