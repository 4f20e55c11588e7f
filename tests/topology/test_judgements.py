"""Small clusters that were judged by hand first: what an operator would say of them is what lint must say."""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path

import pytest

from tests.support.topology.files import found, links, nodes, report_of
from topology.lint.check import check_all
from topology.model.resolving import resolve
from topology.rules.finding import Severity

DATA_DIR = 'data_dir = "/var/lib/openclust"'
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def cluster(*places: str, secondaries: tuple[str, ...] = (), also: str = "") -> str:
    """A cluster of so many primaries, each on a host of its own; a place is `zone=a rack=r1`."""
    lines = ['cluster_key = "orders-eu"', "[cluster]", 'secret_file = "cluster.secret"', DATA_DIR, also]
    named = [("cluster.primaries.p", each) for each in places] + [
        ("topology.secondaries.s", each) for each in secondaries
    ]
    counts: dict[str, int] = {}
    for subnet, (section, place) in enumerate(named, start=1):
        counts[section] = counts.get(section, 0) + 1
        lines += [f"[{section}{counts[section]}]", f'client = "10.0.{subnet}.1:5672"', f'peer = "10.0.{subnet}.1:5682"']
        lines += [f'{key} = "{name}"' for key, _, name in (each.partition("=") for each in place.split())]
    return "\n".join(lines) + "\n"


def judged(text: str, *groups: str) -> dict[str, Severity]:
    """What lint says by itself, of these groups of rules."""
    return {each.code: each.severity for each in report_of(text, select=groups or ("OC3", "OC4")).findings}


# -- what is lost decides


@pytest.mark.parametrize(
    ("places", "right"),
    [
        # Any one zone may go: two of three are left.
        (("zone=a", "zone=b", "zone=c"), {}),
        # Zone a takes two of three, whatever else is written.
        (("zone=a", "zone=a", "zone=b"), {"OC403": ERROR}),
        (("zone=a", "zone=a", "zone=a"), {"OC403": ERROR}),
        (("rack=r1", "rack=r1", "rack=r2"), {"OC403": ERROR}),
        (("host=h1", "host=h1", "host=h2"), {"OC403": ERROR, "OC409": INFO}),
        (("region=eu", "region=eu", "region=us"), {"OC403": ERROR}),
        (("region=eu zone=a", "region=eu zone=b", "region=eu zone=c"), {"OC403": ERROR}),
        # Five over three zones, two in each at most: any zone may go.
        (("zone=a", "zone=b", "zone=c", "zone=a", "zone=b"), {}),
        (("zone=a", "zone=b", "zone=a", "zone=a", "zone=b"), {"OC403": ERROR}),
        # Half of four: if the root was among them, none can be elected.
        (("zone=a", "zone=a", "zone=b", "zone=c"), {"OC402": WARNING, "OC403": ERROR}),
        # One of one, one of two: any of them may be the root, and leaves none.
        (("zone=a",), {"OC401": ERROR}),
        (("zone=a", "zone=b"), {"OC401": ERROR}),
        # Nothing is known: that is said, and no more.
        (("", "", ""), {"OC409": INFO}),
        (("zone=a", "", ""), {"OC405": WARNING}),
    ],
)
def test_what_one_failure_takes_decides_how_grave_it_is(places: tuple[str, ...], right: dict[str, Severity]) -> None:
    assert judged(cluster(*places)) == right


def test_a_rack_does_not_hide_the_zone_with_the_same_primaries() -> None:
    text = cluster("zone=a rack=r1", "zone=a rack=r1", "zone=b rack=r2")
    (finding,) = found(text, "OC403")
    assert finding.severity is ERROR
    assert finding.message == (
        "rack r1 has 2 of 3 primaries (p1 and p2), and so has zone a: without it nobody can be elected"
    )
    assert report_of(text).exit_code() == 1


def test_what_cannot_be_done_better_is_said_with_a_reason() -> None:
    ignored = '\n[[topology.ignore]]\nrule = "OC403"\nreason = "the house has two rooms"\n'
    report = report_of(cluster("zone=a", "zone=a", "zone=b") + ignored)
    assert report.exit_code() == 0
    assert [(each.code, each.reason) for each in report.ignored] == [("OC403", "the house has two rooms")]


def test_a_cluster_on_the_loopback_is_a_trial_and_may_have_one_primary() -> None:
    text = cluster("").replace("10.0.1.1", "127.0.0.1")
    assert judged(text) == {"OC401": WARNING}


@pytest.mark.parametrize("said", ['"OC403"', '"OC403"\nbrokers = ["p3"]', '"OC304"'])
def test_a_suppression_that_matches_nothing_is_named(said: str) -> None:
    ignored = f'\n[[topology.ignore]]\nreason = "two rooms"\nrule = {said}\n'
    text = cluster("zone=a", "zone=b", "zone=c") + ignored
    (finding,) = report_of(text).findings
    assert (finding.code, finding.severity) == ("OC109", WARNING)
    assert finding.message.startswith(f"topology.ignore: {said[1:6]}")
    assert text.splitlines()[finding.line - 1] == "[[topology.ignore]]"
    assert report_of(text, select=["OC1"]).findings == (), "nobody asked for what it ignores"


def test_a_vote_that_would_not_outlive_a_restart_is_told() -> None:
    text = cluster("zone=a", "zone=b", "zone=c").replace(DATA_DIR, "")
    assert judged(text) == {"OC410": WARNING}
    assert judged(text.replace("10.0.", "127.0.")) == {}, "a trial"
    some = text + '[topology.settings.p1]\ncluster.data_dir = "/var/p1"\n'
    assert found(some, "OC410")[0].brokers == ("p2", "p3")
    ignored = '[[topology.ignore]]\nrule = "OC410"\nreason = "the units say --data-dir"\n'
    assert judged(text + ignored) == {}


def test_a_suppression_for_one_broker_leaves_the_others() -> None:
    text = cluster("zone=a", "zone=b", "zone=c", secondaries=("", "", "zone=a"))
    ignored = '[[topology.ignore]]\nrule = "OC405"\nbrokers = ["s1"]\nreason = "it moves"\n'
    report = report_of(text + ignored)
    assert [(each.code, each.brokers) for each in report.findings] == [("OC405", ("s2",))]
    assert [each.brokers for each in report.ignored] == [("s1",)]


# -- active-passive: the root has all clients


def active_passive(**topology: int) -> str:
    numbers = "".join(f"{key} = {number}\n" for key, number in topology.items())
    text = cluster("zone=a", "zone=b", "zone=c", secondaries=("zone=a", "zone=b", "zone=c"))
    return f'{text}[redirect]\nmode = "active-passive"\n[topology]\n{numbers}'


def test_all_clients_of_an_active_passive_cluster_must_fit_on_the_root() -> None:
    # Six brokers take 360,000 together, and any five of them 300,000. But all go to one, and that takes 60,000.
    (finding,) = report_of(active_passive(clients=100_000)).findings
    assert (finding.code, finding.severity) == ("OC602", ERROR)
    assert finding.message == (
        "100,000 clients all go to the root (active-passive), and p1 as root takes 60,000; likewise p2; p3"
    )
    assert report_of(active_passive(clients=60_000)).findings == ()
    balanced = active_passive(clients=100_000).replace("active-passive", "balanced")
    assert report_of(balanced).findings == ()


def test_the_weakest_primary_may_be_the_root_of_an_active_passive_cluster() -> None:
    text = active_passive(clients=50_000).replace("primaries.p2]", "primaries.p2]\nmemory_mb = 500")
    assert found(text, "OC602")[0].brokers == ("p2",)
    assert found(text, "OC604")[0].brokers == ("p2",)
    text = active_passive(client_mbit=2_000).replace("primaries.p3]", "primaries.p3]\nbandwidth_mbit = 1000")
    assert found(text, "OC605")[0].message == (
        "all 2,000 Mbit/s of the clients go through the root (active-passive), and p3 as root has 1,000"
    )


# -- what lies between


def test_a_zone_that_takes_both_switches_takes_the_quorum() -> None:
    switches = nodes("sw1", "sw2").replace('kind = "switch"', 'zone = "a"')
    both = [f"{broker} {switch}" for broker in ("p1", "p2", "p3") for switch in ("sw1", "sw2")]
    text = cluster("zone=a", "zone=b", "zone=c") + switches + links(*both)
    assert judged(text) == {"OC304": INFO, "OC309": ERROR}
    elsewhere = text.replace('sw2]\nzone = "a"', 'sw2]\nzone = "b"')
    assert judged(elsewhere) == {"OC304": INFO}


def test_a_link_is_not_blamed_for_a_broker_that_was_cut_off_before() -> None:
    switches = nodes("sw1", "sw2", "sw3")
    text = cluster("zone=a", "zone=b", "zone=c", secondaries=("zone=a", "zone=b")) + switches
    text += links("p1 sw1", "p2 sw1", "p3 sw1", "s1 sw1", "sw1 sw2", "s2 sw3")  # s2 reaches nobody anyway
    told = [each.message for each in found(text, "OC307")]
    assert told == [], "the trunk from sw1 to sw2 carries nobody, and s2 is told of by OC302"
    assert [each.brokers[0] for each in found(text, "OC302")] == ["s2"]


def test_one_triangle_is_one_finding() -> None:
    triangle = nodes("a", "b", "c", kind="network") + links("p1 a", "p1 b", "p2 b", "p2 c", "p3 c", "p3 a")
    (finding,) = found(cluster("zone=a", "zone=b", "zone=c") + triangle, "OC305")
    assert finding.message == (
        "without node a, p2 hears p1 and p3, which do not hear each other; "
        "likewise without node b; without node c; without link p1 - a; 5 more"
    )
    mesh = links("p1 p2", "p1 p3", "p2 p3", latency_ms=50)
    (finding,) = found(cluster("zone=a", "zone=b", "zone=c") + mesh, "OC501")
    assert finding.message.endswith("; 250 ms would do; likewise p1 and p3; p2 and p3")


# -- addresses


def test_a_broker_is_not_its_own_twin() -> None:
    text = cluster("zone=a", "zone=b", "zone=c").replace("10.0.1.1:5682", "10.0.1.1:5672")
    assert [each.message for each in found(text, "OC201")] == [
        "p1: its client and its peer address are both 10.0.1.1:5672"
    ]


def test_a_broker_in_both_partitions_is_told_once() -> None:
    text = cluster("zone=a", "zone=b", "zone=c")
    text += '[topology.secondaries.p1]\nclient = "10.0.1.1:5672"\npeer = "10.0.1.1:5682"\n'
    assert judged(text, "OC2") == {"OC203": ERROR}


def test_many_brokers_with_one_address_are_one_finding() -> None:
    text = cluster("zone=a", "zone=b", "zone=c", secondaries=("zone=a",) * 200)
    text = re.sub(r"10\.0\.(?!1\.)\d+\.1:5672", "10.0.1.1:5672", text)
    (finding,) = found(text, "OC201")
    assert finding.message == (
        "p2: its client address 10.0.1.1:5672 is the client address of p1 too; likewise the client address of p3; "
        "the client address of s1; the client address of s2; 198 more"
    )
    assert len(finding.brokers) == 203


def test_a_name_and_a_number_of_one_machine_are_one_address() -> None:
    # The entry of p1 says that p1.example and 10.0.1.1 are one machine; p2 wants the same port there.
    text = cluster("zone=a", "zone=a", "zone=b", "zone=c", "zone=c")
    text = text.replace('client = "10.0.1.1', 'client = "p1.example').replace("10.0.2.1:5672", "10.0.1.1:5672")
    (finding,) = found(text, "OC210")
    assert (finding.severity, finding.brokers) == (WARNING, ("p2", "p1"))
    assert finding.message == (
        "p2: its client address 10.0.1.1:5672 is the client address p1.example:5672 of p1, "
        "by what the entries say of their machines"
    )
    text = cluster("", "", "", "", "").replace("10.0.1.1:5672", "p1.example:5672")
    text = re.sub(r"10\.0\.([23])\.1:56(.)2", r"p1.example:56\g<2>\g<1>1", text)
    assert "host 10.0.1.1 has 3 of 5 primaries (p1, p2 and p3)" in found(text, "OC403")[0].message


def test_a_name_that_many_have_is_of_no_machine() -> None:
    # A balancer's name stands in all three entries; whoever is at one of their addresses is not at the balancer.
    text = cluster("zone=a", "zone=b", "zone=c")
    text = re.sub(r'client = "10.0.\d.1:5672"', 'client = "mq.example:5672"', text)
    for number in (1, 2, 3):
        text += f'[topology.secondaries.s{number}]\nclient = "10.0.{number}.1:5672"\npeer = "10.0.{number}.1:5699"\n'
    assert found(text, "OC210") == []


def test_the_resolver_is_asked_only_where_that_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(name: str, *_: object, **__: object) -> list[object]:
        if name != "p1.example":
            raise socket.gaierror(-2, "unknown")
        return [(0, 0, 0, "", ("10.0.2.1", 0))]

    text = cluster("zone=a", "zone=b", "zone=c").replace("10.0.1.1:5672", "p1.example:5672")
    path = tmp_path / "cluster.toml"
    path.write_text(text.replace("10.0.3.1:5682", "p3.example:5682"))
    monkeypatch.setattr(socket, "getaddrinfo", answer)
    (report, _), (asked, _) = (*check_all([path]), *check_all([path], with_resolver=True))
    assert {each.code for each in report.findings} == set()
    assert [(each.code, each.message) for each in asked.findings] == [
        ("OC201", "p2: its client address 10.0.2.1:5672 is the client address of p1 too (as p1.example:5672)"),
        ("OC212", "p3: the host of its peer address p3.example:5682 has no address that is known here"),
    ]


def test_a_resolver_that_does_not_answer_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: asked.wait() and [])
    assert resolve(["a.example", "10.0.0.1", ""], wait_s=0) == {"a.example": ()}
    asked.set()


@pytest.mark.parametrize("port", ["0", "70000", "", "x"])
def test_a_wrong_port_is_told_with_its_line(port: str) -> None:
    text = cluster("zone=a", "zone=b", "zone=c", secondaries=("zone=a",)).replace("10.0.2.1:5672", f"10.0.2.1:{port}")
    (finding,) = report_of(text).findings
    assert (finding.code, finding.line) == ("OC103", 11)
    assert finding.message.startswith("cluster.primaries.p2.client: wanted HOST:PORT, with a port from 1 to 65535, not")


def test_a_file_of_primaries_may_say_where_they_listen() -> None:
    text = cluster("zone=a", "zone=b", "zone=c", also='client_listen = "[::]:5672"\npeer_listen = "[::]:5682"')
    assert report_of(text).findings == ()


def test_a_byte_order_mark_is_called_by_its_name() -> None:
    (finding,) = report_of("\ufeff" + cluster("zone=a", "zone=b", "zone=c")).findings
    assert (finding.code, finding.line) == ("OC101", 1)
    assert "byte order mark" in finding.message
