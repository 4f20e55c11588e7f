"""A failing and a passing file for each rule."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.support.topology.files import FIFTH, FOURTH, SOUND, each_primary, links, nodes, with_topology


class Case(NamedTuple):
    """`said` is part of the message about `failing`; of `passing` the rule says nothing."""

    failing: str
    said: str
    passing: str = SOUND


def changed(old: str, new: str, text: str = SOUND) -> str:
    assert old in text, old
    return text.replace(old, new)


STAR = nodes("sw1") + links("p1 sw1", "p2 sw1", "p3 sw1", "s1 sw1", "s2 sw1")
TWO_SWITCHES = nodes("sw1", "sw2") + links(
    *(f"{broker} {switch}" for broker in ("p1", "p2", "p3", "s1", "s2") for switch in ("sw1", "sw2")), "sw1 sw2"
)
BOTH_IN_A = TWO_SWITCHES.replace('kind = "switch"', 'zone = "a"')
ONE_EACH = nodes("sw1", "sw2", "sw3") + links(
    *("p1 sw1", "s1 sw1", "p2 sw2", "s2 sw2", "p3 sw3"), "sw1 sw2", "sw2 sw3", "sw3 sw1"
)
TWO_NETWORKS = nodes("a", "b", kind="network") + links("p1 a", "p1 b", "p2 a", "p2 b", "p3 b")
MESH = links("p1 p2", "p1 p3", "p2 p3")
SECONDARIES = "[topology.secondaries.s1]"
BANDWIDTH = each_primary(SOUND, *["bandwidth_mbit = 1000"] * 3)
BANDWIDTH = changed("[topology.secondaries.s1]", "[topology.secondaries.s1]\nbandwidth_mbit = 1000", BANDWIDTH)
BANDWIDTH = changed("[topology.secondaries.s2]", "[topology.secondaries.s2]\nbandwidth_mbit = 1000", BANDWIDTH)
ON_LOOPBACK = """\
cluster_key = "demo"
[cluster.primaries.p1]
client = "127.0.0.1:1"
peer = "127.0.0.1:2"
[cluster.primaries.p2]
client = "localhost:3"
peer = "localhost:4"
[cluster.primaries.p3]
client = "[::1]:5"
peer = "[::1]:6"
"""
WITHOUT_SECRET = changed('secret_file = "cluster.secret"\n', "")
PEER_TLS = 'peer_cert = "b.pem"\npeer_key = "b.key"\npeer_ca = "ca.pem"\n'
REGIONS = each_primary(SOUND, 'region = "eu"', 'region = "eu"', 'region = "us"')


def without_p3(text: str = SOUND) -> str:
    begin, end = text.index("[cluster.primaries.p3]"), text.index(SECONDARIES)
    return text[:begin] + text[end:]


def ignoring(rule: str, reason: str = "", also: str = "") -> str:
    return f'{SOUND}\n[[topology.ignore]]\nrule = "{rule}"\nreason = "{reason}"\n{also}'


BY_NAME = changed('client = "10.0.1.1:5672"', 'client = "p1.example:5672"')

CASES = {
    "OC101": Case(changed('"orders-eu"', "orders-eu"), "invalid value"),
    "OC102": Case(changed("rack = ", "rakc = "), "unknown key 'rakc'; did you mean 'rack'?"),
    "OC103": Case(changed("heartbeat_ms = 100", "heartbeat_ms = 1"), "allowed is 20 to 60000"),
    "OC104": Case(SOUND + links("p1 p9"), "there is no 'p9'", SOUND + links("p1 p2")),
    "OC105": Case(SOUND + links("p1 p1"), "between p1, p1", SOUND + links("p1 p2")),
    "OC106": Case(ignoring("OC303"), "no reason is given", ignoring("OC303", "it is a trunk")),
    "OC107": Case("# to be written\n", "the file says nothing", ON_LOOPBACK),
    "OC109": Case(ignoring("OC402", "p4 goes next week"), "OC402 was not found", SOUND),
    "OC201": Case(
        changed("10.0.2.1:5682", "10.0.1.1:5682"), "p2: its peer address 10.0.1.1:5682 is the peer address of p1 too"
    ),
    "OC202": Case(SOUND + nodes("s1") + links("p1 p2"), "s1 is a broker and a switch", SOUND + STAR),
    "OC203": Case(changed(SECONDARIES, "[topology.secondaries.p1]"), "p1 is both a primary and a secondary"),
    "OC204": Case(changed('client = "10.0.1.1', 'client = "0.0.0.0'), "p1: nobody can dial its client address"),
    "OC205": Case(changed('peer = "10.0.1.1', 'peer = "127.0.0.1'), "p1: its peer address 127.0.0.1:5682", ON_LOOPBACK),
    "OC206": Case(ON_LOOPBACK, "all 3 brokers are on this machine"),
    "OC207": Case(
        each_primary(changed("10.0.2.1:5682", "10.0.1.1:5683"), 'host = "x"', 'host = "y"', ""), "p1 and p2 are all at"
    ),
    "OC208": Case(
        SOUND.replace('zone = "b"', 'zone = "B "', 1),
        "zone 'B ' is written 'b' by s2: one place",
        changed('zone = "b"', 'zone = "B"'),
    ),
    "OC209": Case(changed("10.0.2.1:5682", "10.0.1.1:5683"), "host 10.0.1.1 is said to be in zone a (p1), zone b (p2)"),
    "OC210": Case(
        changed("10.0.2.1:5672", "10.0.1.1:5672", BY_NAME), "p1.example:5672 of p1, by what the entries say", BY_NAME
    ),
    "OC301": Case(SOUND + links("p1 p2", "p2 p3"), "p1 and p3 have no way to each other", SOUND + MESH),
    "OC302": Case(SOUND + links("s1 p1", "s1 p2"), "s1 has no way to p3", SOUND + links("s1 p1", "s1 p2", "s1 p3")),
    "OC303": Case(SOUND + links("s1 s2"), "s1 and s2 are linked, and both are secondaries", SOUND + STAR),
    "OC304": Case(SOUND + TWO_SWITCHES, "more than one path lies between p1 and p2", SOUND + STAR),
    "OC305": Case(
        SOUND + TWO_NETWORKS,
        "p2 hears p1 and p3, which do not hear each other; likewise without link p2 - b",
        SOUND + STAR,
    ),
    "OC306": Case(SOUND + STAR, "without switch sw1 no primary reaches another", SOUND + TWO_SWITCHES),
    "OC307": Case(SOUND + ONE_EACH, "without switch sw1, p1 and s1 cannot be reached", SOUND + TWO_SWITCHES),
    "OC308": Case(SOUND + nodes("sw9"), "no link goes to switch sw9", SOUND + STAR),
    "OC401": Case(without_p3(), "p1 and p2 are the only primaries"),
    "OC402": Case(SOUND + FOURTH, "4 primaries survive the loss of 1, as 3 do", SOUND + FOURTH + FIFTH),
    "OC309": Case(SOUND + BOTH_IN_A, "without zone a, which has sw1 and sw2, no primary reaches another", SOUND + STAR),
    "OC403": Case(changed('zone = "b"', 'zone = "a"'), "zone a has 2 of 3 primaries (p1 and p2)"),
    "OC404": Case(
        each_primary(SOUND, "cores = 8", "cores = 8", "cores = 2"),
        "p3: 2 cores, where p1 and p2 have 8",
        each_primary(SOUND, "cores = 8", "cores = 8", "cores = 8"),
    ),
    "OC405": Case(changed('rack = "c1"\n', ""), "p3 has no rack", changed("rack = ", "#", SOUND)),
    "OC406": Case(
        SOUND + "".join(FOURTH.replace("p4", f"p{n}").replace("0.4", f"0.{n}") for n in range(4, 12)),
        "11 primaries",
        SOUND + FOURTH + FIFTH,
    ),
    "OC407": Case(
        SOUND + "\n[topology.settings.p2]\ncluster.heartbeat_ms = 200\n",
        "the heartbeats differ",
        SOUND + "\n[topology.settings.s1]\ncluster.heartbeat_ms = 200\n",
    ),
    "OC408": Case(
        SOUND + '\n[topology.settings.p2]\n"limits.message_size_max" = 5\n',
        "limits.message_size_max differs",
        SOUND + '\n[topology.settings.p2]\n"listen.backlog" = 5\n',
    ),
    "OC409": Case(
        re.sub("(rack|zone) = .*\n", "", SOUND), "no rack, zone or region is said of p1, p2 and p3", ON_LOOPBACK
    ),
    "OC410": Case(
        changed("data_dir", "#"),
        "p1 has no cluster.data_dir: its vote and its durable queues do not outlive a restart; likewise p2; p3",
        ON_LOOPBACK,
    ),
    "OC501": Case(
        SOUND + links("p1 p2", latency_ms=40),
        "p1 and p2 are 40 ms apart: a round trip of 80 ms does not fit in the 80 ms",
        SOUND + links("p1 p2", latency_ms=39),
    ),
    "OC502": Case(
        SOUND + links("p1 p2", latency_ms=30), "more than half of the 80 ms", SOUND + links("p1 p2", latency_ms=20)
    ),
    "OC503": Case(
        with_topology("failover_ms = 399"), "399 ms are wanted; 99 ms would do", with_topology("failover_ms = 400")
    ),
    "OC504": Case(
        SOUND + links("p1 p2", loss=0.01),
        "sending again takes 200 ms",
        changed("heartbeat_ms = 100", "heartbeat_ms = 300") + links("p1 p2", loss=0.01),
    ),
    "OC505": Case(changed("heartbeat_ms = 100", "heartbeat_ms = 100\nroot_wait_ms = 399"), "shared work waits 399 ms"),
    "OC601": Case(
        changed(SECONDARIES, f"{SECONDARIES}\nconnections = 60001"),
        "s1: more than 60,000",
        changed(SECONDARIES, f"{SECONDARIES}\nconnections = 60000"),
    ),
    "OC602": Case(
        with_topology("clients = 300001"), "all 5 brokers together take 300,000", with_topology("clients = 300000")
    ),
    "OC603": Case(
        with_topology("clients = 180001"),
        "without rack a1 (p1 and s1) there is room for 180,000 of 180,001",
        with_topology("clients = 180000"),
    ),
    "OC604": Case(
        changed(SECONDARIES, f"{SECONDARIES}\nmemory_mb = 700\nconnections = 60000"),
        "s1: 60,000 connections, and 700 MB hold",
        changed(SECONDARIES, f"{SECONDARIES}\nmemory_mb = 1000\nconnections = 60000"),
    ),
    "OC605": Case(
        f"{BANDWIDTH}\n[topology]\nclient_mbit = 3001",
        "without rack a1 (p1 and s1) 3,000 Mbit/s are left",
        f"{BANDWIDTH}\n[topology]\nclient_mbit = 3000",
    ),
    "OC606": Case(
        f"{BANDWIDTH}\n[topology]\nshared_mbit = 334",
        "p1 as root sends 1,002 Mbit/s",
        f"{BANDWIDTH}\n[topology]\nshared_mbit = 333",
    ),
    "OC607": Case(
        with_topology("shared_mbit = 101") + links("p1 p2", bandwidth_mbit=100),
        "p1 and p2 have 100 Mbit/s between them",
        with_topology("shared_mbit = 100") + links("p1 p2", bandwidth_mbit=100),
    ),
    "OC701": Case(WITHOUT_SECRET, "have no secret", changed("[cluster]\n", f"[cluster]\n{PEER_TLS}", WITHOUT_SECRET)),
    "OC702": Case(REGIONS, "regions eu and us", changed("[cluster]\n", f"[cluster]\n{PEER_TLS}", REGIONS)),
    "OC703": Case(changed("orders-eu", "demo"), "the cluster key 'demo'", ON_LOOPBACK),
    "OC705": Case(changed('secret_file = "cluster.secret"', 'secret = "x"'), "cluster.secret stands in the file"),
    "OC706": Case(
        SOUND + "\n[auth]\nguest_from_loopback_only = false\n",
        "guest is let in from anywhere",
        SOUND + '\n[auth]\nguest_from_loopback_only = false\nusers_file = "users.json"\n',
    ),
}
"""Rules that need other files or a running cluster have tests of their own."""
