"""Every rule finds what it is for, and nothing in a file that has it right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.topology.cases import CASES, ON_LOOPBACK, STAR
from tests.support.topology.files import FOURTH, SOUND, each_primary, found, links, nodes, report_of, with_topology
from topology.lint.check import check_all, lint
from topology.model.graph import Model
from topology.model.live_cluster import Live, LiveBroker, live_of
from topology.rules.finding import Severity
from topology.rules.rule import RULES, all_rules

LIVE_RULES = {code for code in (each.code for each in all_rules()) if code.startswith("OC8")}


def test_every_rule_has_a_failing_and_a_passing_file() -> None:
    assert set(CASES) | {each.code for each in all_rules() if each.needs != "file"} == set(RULES)


def test_the_sound_file_is_clean() -> None:
    assert report_of(SOUND).findings == ()


@pytest.mark.parametrize("code", CASES)
def test_a_rule_finds_what_it_is_for(code: str) -> None:
    findings = found(CASES[code].failing, code)
    assert any(CASES[code].said in each.message for each in findings), [each.message for each in findings]


@pytest.mark.parametrize("code", CASES)
def test_a_rule_is_silent_where_all_is_right(code: str) -> None:
    assert [each.message for each in found(CASES[code].passing, code)] == []


@pytest.mark.parametrize(
    "code", sorted(set(CASES) - {"OC101", "OC105", "OC106", "OC107", "OC109", "OC308", "OC505", "OC602", "OC706"})
)
def test_a_finding_tells_its_line_and_names_its_brokers(code: str) -> None:
    if code in ("OC102", "OC103", "OC104", "OC703", "OC705"):
        assert found(CASES[code].failing, code)[0].line
        return
    first = found(CASES[code].failing, code)[0]
    assert first.line and first.brokers
    assert all(name in first.message for name in first.brokers[:1]) or len(first.brokers) > 2


def test_a_syntax_error_has_line_and_column() -> None:
    (finding,) = report_of(CASES["OC101"].failing).findings
    assert (finding.line, finding.column) == (1, 15)


# -- names


def test_two_spellings_are_one_address() -> None:
    text = ON_LOOPBACK.replace("localhost:4", "LocalHost:2")
    (finding,) = found(text, "OC201")
    assert finding.message == "p2: its peer address LocalHost:2 is the peer address of p1 too (as 127.0.0.1:2)"


# -- quorum


def test_exactly_half_in_one_zone_leaves_a_root_only_if_it_is_among_the_others() -> None:
    (finding,) = found(SOUND.replace('zone = "b"', 'zone = "a"') + FOURTH, "OC403")
    assert finding.severity is Severity.ERROR
    assert finding.message.endswith("though a root among the others stays")


def test_primaries_on_one_host_are_found_by_their_addresses() -> None:
    (finding,) = found(SOUND.replace("10.0.2.1:56", "10.0.1.1:57"), "OC403")
    assert finding.message.startswith("host 10.0.1.1 has 2 of 3 primaries (p1 and p2): without it")


def test_secondaries_without_primaries_have_nobody_to_join() -> None:
    (finding,) = found('[topology.secondaries.s1]\nclient = "a:1"\n', "OC401")
    assert finding.message == "there are no primaries for s1 to join"
    assert finding.severity is Severity.ERROR


# -- paths


def test_exactly_half_on_each_side_of_a_trunk_is_said() -> None:
    text = SOUND + FOURTH + nodes("sw1", "sw2") + links("p1 sw1", "p2 sw1", "p3 sw2", "p4 sw2", "sw1 sw2")
    (finding,) = [each for each in found(text, "OC306") if "link" in each.message]
    assert finding.message == (
        "without the link sw1 - sw2 only 2 of 4 primaries reach each other: exactly half, "
        "so that a root stays but none is made"
    )
    assert finding.links == (("sw1", "sw2"),)


def test_brokers_pass_nothing_on() -> None:
    text = SOUND + nodes("sw1", "sw2") + links("p1 sw1", "p2 sw1", "p2 sw2", "p3 sw2")
    assert [each.brokers for each in found(text, "OC301")] == [("p1", "p3")]


def test_two_cables_between_two_switches_are_no_bridge() -> None:
    text = SOUND + nodes("sw1", "sw2") + links("p1 sw1", "p2 sw1", "p3 sw2", "sw1 sw2", "sw2 sw1")
    assert not [each for each in found(text, "OC307") if each.links]


def test_networks_of_their_own_are_sound_as_long_as_a_failure_cuts_all_alike() -> None:
    networks = nodes("a", "b", kind="network")
    assert found(SOUND + networks + links("p1 a", "p2 a", "p3 a", "s1 b"), "OC305") == []
    both = found(SOUND + networks + links("p1 a", "p1 b", "p2 a", "p2 b", "p3 a", "p3 b"), "OC305")
    assert both == [], "one failure leaves all of them one network"


def test_latency_adds_up_along_the_way() -> None:
    text = SOUND + nodes("sw1", "sw2") + links("p1 sw1", "p2 sw2", "p3 sw2", "sw1 sw2", latency_ms=15)
    (finding,) = found(text, "OC501")
    assert finding.links == (("p1", "p2"), ("p1", "p3")), "p2 and p3 are at one switch"
    assert finding.message.startswith("p1 and p2 are 45 ms apart: ")
    assert finding.message.endswith("; likewise p1 and p3")


def test_a_wan_on_the_way_wants_tls() -> None:
    (finding,) = found(SOUND + STAR.replace('kind = "switch"', 'kind = "wan"'), "OC702")
    assert "through sw1" in finding.message


# -- capacity


def test_limits_and_memory_bound_what_a_broker_takes() -> None:
    text = with_topology("clients = 1000") + "\n[topology.settings.s1]\nlimits.connections_max = 10\n"
    text = text.replace("[cluster]\n", "[limits]\nconnections_max = 100\n[cluster]\n")
    (finding,) = found(text, "OC602")
    assert finding.message == "1,000 clients are expected, and all 5 brokers together take 410"


def test_what_a_broker_says_of_its_connections_counts() -> None:
    text = each_primary(with_topology("clients = 120031"), *["connections = 10"] * 3)
    (finding,) = found(text, "OC602")
    assert finding.message == "120,031 clients are expected, and all 5 brokers together take 120,030"


def test_clients_are_shared_out_by_weight() -> None:
    text = each_primary(with_topology("clients = 100000"), "weight = 20", "", "")
    assert [each.brokers for each in found(text, "OC601")] == [("p1",)]


# -- several files


def test_two_clusters_of_one_key_are_found_when_both_files_are_given(tmp_path: Path) -> None:
    one, other, same = (tmp_path / name for name in ("one.toml", "other.toml", "same.toml"))
    one.write_text(SOUND)
    other.write_text(SOUND.replace("10.0.", "10.9."))
    same.write_text(SOUND + FOURTH)
    codes = {report.file: [each.code for each in report.findings] for report, _ in check_all([one, other])}
    assert codes == {str(one): ["OC704"], str(other): ["OC704"]}
    assert all("OC704" not in {each.code for each in report.findings} for report, _ in check_all([one, same]))


# -- a running cluster


def running(*changes: LiveBroker, cluster_key: str = "orders-eu", root: str | None = "p1") -> Live:
    """The cluster of the sound file, all well but for the changes."""
    brokers = {
        name: LiveBroker(name, "primary" if name[0] == "p" else "secondary", True, address)
        for name, address in {
            "p1": "10.0.1.1:5672",
            "p2": "10.0.2.1:5672",
            "p3": "10.0.3.1:5672",
            "s1": "10.0.1.2:5672",
            "s2": "10.0.2.2:5672",
        }.items()
    }
    brokers |= {each.name: each for each in changes}
    return Live(cluster_key, "p1", tuple(brokers.values()), root)


def codes_of(live: Live) -> dict[str, str]:
    return {each.code: each.message for each in report_of(SOUND, live=live).findings}


LIVE = {
    "OC801": (running(cluster_key="other"), "p1 is of the cluster 'other', the file of 'orders-eu'"),
    "OC802": (running(LiveBroker("p4", "primary", True)), "p4: primaries of the running cluster, and not of the file"),
    "OC803": (running(LiveBroker("p2", "primary", False)), "p2 of 3 primaries cannot be heard by p1"),
    "OC804": (running(LiveBroker("s2", "secondary", False)), "s2 did not join"),
    "OC805": (running(LiveBroker("s9", "secondary", True)), "s9 joined, and the file does not know of that"),
    "OC806": (
        running(LiveBroker("p3", "primary", True, "10.0.3.9:5672")),
        "p3: its client address is 10.0.3.9:5672, and 10.0.3.1:5672 in the file",
    ),
    "OC807": (running(root=None), "p1 knows of no root"),
}


def test_every_difference_has_a_case() -> None:
    assert set(LIVE) == LIVE_RULES
    assert codes_of(running()) == {}


@pytest.mark.parametrize("code", LIVE)
def test_a_difference_is_told(code: str) -> None:
    live, said = LIVE[code]
    assert codes_of(live) == {code: said}


def test_what_is_no_cluster_is_not_taken_for_one() -> None:
    with pytest.raises(ValueError, match="cluster_key"):
        live_of({"name": "p1"})


def test_a_model_of_nothing_has_nothing_wrong() -> None:
    from openclust.shell.config.schema import Config

    assert lint(Model(Config(cluster_key="k"))).findings == ()


# -- thresholds


@pytest.mark.parametrize(
    ("code", "text", "threshold", "said"),
    [
        ("OC406", SOUND, "primaries_max = 2", "more than 2 make"),
        (
            "OC601",
            SOUND.replace('zone = "a"', 'zone = "a"\nconnections = 5000', 1),
            "connections_max = 4000",
            "more than 4,000",
        ),
        (
            "OC702",
            SOUND + links("p1 p2", latency_ms=2) + links("p1 p3") + links("p2 p3"),
            "wan_latency_ms = 1.5",
            "1.5 ms or more",
        ),
        (
            "OC502",
            SOUND + links("p1 p2", latency_ms=15) + links("p1 p3") + links("p2 p3"),
            "round_trip_share_max = 0.3",
            "30 %",
        ),
    ],
)
def test_thresholds_are_those_of_the_file(code: str, text: str, threshold: str, said: str) -> None:
    assert found(text, code) == []
    findings = found(f"{text}\n[topology.thresholds]\n{threshold}\n", code)
    assert findings and said in findings[0].message


def test_primaries_may_be_as_unequal_as_the_file_says() -> None:
    text = SOUND.replace('zone = "a"', 'zone = "a"\ncores = 8', 1).replace('zone = "b"', 'zone = "b"\ncores = 7', 1)
    assert found(text, "OC404")
    assert found(f"{text}\n[topology.thresholds]\ncapability_share_min = 0.8\n", "OC404") == []


def test_a_broker_that_says_nothing_bears_what_the_threshold_says() -> None:
    text = with_topology("clients = 10000")
    assert found(text, "OC602") == []
    assert found(f"{text}\n[topology.thresholds]\nconnections_max = 1000\n", "OC602")
