"""Two brokers of one name: the second is refused, and a broker that comes back after a crash is not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
import pytest

from openclust.cli.cluster.local_cluster import LocalCluster, plan_cluster
from openclust.cluster.protocol.hello import introduce
from openclust.wire.errors import ConnectionError
from openclust.wire.handshake import State
from tests.support.clients.deadline import eventually
from tests.support.cluster.joined import HEARTBEAT_MS, SECRET, Joined, Wire
from tests.support.cluster.running_cluster import START_WAIT_S, Primary

BACK_WITHIN_S = 15.0


@pytest.fixture
def cluster() -> Joined:
    joined = Joined("p1", "p2", "p3", secondaries=("s1",))
    joined.tick(1_000)
    return joined


@pytest.mark.parametrize(("name", "silent_beats"), [("p1", 4), ("p3", 4), ("s1", 31)])
def test_a_broker_whose_end_nobody_has_noticed_gets_in_when_it_is_missed(
    cluster: Joined, name: str, silent_beats: int
) -> None:
    cluster.vanish(name)
    with pytest.raises(ConnectionError, match=f"the name '{name}' is taken by a broker at 127.0.0.1"):
        cluster.start(name)
    cluster.vanish(name)
    cluster.tick(silent_beats * HEARTBEAT_MS)
    cluster.start(name)
    cluster.tick(1_000)
    assert cluster.await_root() == ("p2" if name == "p1" else "p1")
    assert all(cluster[other].is_there(name) for other in ("p1", "p2", "p3") if other != name)


def test_nothing_of_its_last_life_goes_over_to_the_next(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.queue("mine", exclusive=True)
    client.bind("mine", "amq.fanout")
    assert cluster["p2"].meta_bindings.held["s1"].count
    cluster.vanish("s1")
    cluster.tick(31 * HEARTBEAT_MS)
    cluster.make("s1", is_primary=False)
    cluster.link("s1", "p2")
    assert "s1" not in cluster["p2"].meta_bindings.held


def twin(cluster: Joined, name: str, at: str) -> Wire:
    """Another broker of that name dials a primary, and the primary's answer is not waited for."""
    wire = Wire(cluster.broker(at))
    wire.connection.nonce = "n"
    hello = msgspec.structs.replace(cluster[name].hello, life="another")
    wire.connection.user = cluster[at].admit(wire.connection, introduce(hello, "n", SECRET))
    wire.connection.state = State.OPEN
    return wire


def test_of_two_brokers_that_came_to_other_primaries_first_the_one_stays_that_the_root_has(cluster: Joined) -> None:
    cluster.unlink("s1", "p2")
    wire = twin(cluster, "s1", at="p2")
    cluster.tick(2_000)
    assert wire.connection.state is State.OPEN, "what the root tells may be older than a restart of s1"
    cluster.tick(3_000)
    assert wire.connection.state is not State.OPEN
    assert "s1" not in cluster["p2"].admission.connections
    assert cluster["p1"].is_there("s1")
    with pytest.raises(ConnectionError, match=r"'s1' is taken by a broker at .*, says the root p1"):
        twin(cluster, "s1", at="p2")
    cluster.link("s1", "p2")
    cluster.settle()
    assert cluster["p2"].is_there("s1")


# -- processes


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> LocalCluster:
    return plan_cluster("test", tmp_path_factory.mktemp("names"), 3, 1)


@pytest.fixture(scope="module")
def brokers(plan: LocalCluster) -> Iterator[dict[str, Primary]]:
    """Processes that see each other."""
    plan.write()
    brokers = {place.name: Primary(plan, place) for place in plan.brokers}
    try:
        for each in brokers.values():
            each.start()
        eventually(lambda: are_complete(brokers), START_WAIT_S)
        yield brokers
    finally:
        for each in brokers.values():
            each.stop()


def are_complete(brokers: dict[str, Primary]) -> bool:
    """Whether each sees all of them, and one root."""
    seen = [each.ask() for each in brokers.values()]
    there = [{each["name"] for each in one["brokers"] if each["online"]} for one in seen if one]
    return there == [brokers.keys()] * len(brokers) and len({one["root"] for one in seen if one and one["root"]}) == 1


@contextlib.contextmanager
def twin_of(plan: LocalCluster, name: str) -> Iterator[Primary]:
    """Another broker of that name, with addresses and a directory of its own."""
    folder = plan.folder / f"twin of {name}"
    place = msgspec.structs.replace(plan_cluster("test", folder, 1).primaries[0], name=name)
    own = msgspec.structs.replace(
        plan,
        folder=folder,
        primaries=tuple(place if each.name == name else each for each in plan.primaries),
        secondaries=tuple(place if each.name == name else each for each in plan.secondaries),
    )
    own.write()
    twin = Primary(own, place)
    try:
        twin.start()
        yield twin
    finally:
        twin.stop()


@pytest.mark.sockets
def test_the_second_of_two_processes_of_one_name_is_refused_with_the_reason_at_both_ends(
    plan: LocalCluster, brokers: dict[str, Primary]
) -> None:
    lost = [each.log.read_text().count("link lost") for each in brokers.values()]
    for place, others in ((plan.primaries[0], ("p2", "p3")), (plan.secondaries[0], ("p1", "p2", "p3"))):
        taken = f"the name '{place.name}' is taken by a broker at 127.0.0.1, its peers at 127.0.0.1:{place.peer_port}"
        with twin_of(plan, place.name) as twin:
            for end in (twin, *(brokers[each] for each in others)):
                eventually(lambda: taken in end.log.read_text(), START_WAIT_S)  # noqa: B023
    assert [each.log.read_text().count("link lost") for each in brokers.values()] == lost, "nobody was thrown out"


@pytest.mark.sockets
def test_a_process_that_is_killed_and_started_at_once_is_back_within_seconds(brokers: dict[str, Primary]) -> None:
    for name in ("p3", "s1"):
        refused = [each.log.read_text().count("is taken") for each in brokers.values()]
        brokers[name].kill()
        brokers[name].start()
        eventually(lambda: are_complete(brokers), BACK_WITHIN_S)
        assert [each.log.read_text().count("is taken") for each in brokers.values()] == refused
