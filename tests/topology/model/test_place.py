"""Names of places: what they mean hangs on what they are within, and not on how they are spelled."""

from __future__ import annotations

import pytest

from tests.support.topology.files import found, model_of
from tests.support.topology.random_models import broker
from topology.model.file_entries import ListedNode
from topology.model.place import DomainKind, Places, one_spelling

THREE = """\
cluster_key = "orders-eu"
[cluster]
secret_file = "cluster.secret"
[cluster.primaries.p1]
client = "10.0.1.1:5672"
peer = "10.0.1.1:5682"
%s
[cluster.primaries.p2]
client = "10.0.2.1:5672"
peer = "10.0.2.1:5682"
%s
[cluster.primaries.p3]
client = "10.0.3.1:5672"
peer = "10.0.3.1:5682"
%s
"""


def of_kind(places: Places, kind: DomainKind) -> dict[str, tuple[str, ...]]:
    return {each.name: each.brokers for each in places.domains.values() if each.kind == kind}


def test_a_rack_of_one_name_in_two_zones_is_two_racks() -> None:
    text = THREE % (
        'zone = "Frankfurt"\nrack = "r1"',
        'zone = "Amsterdam"\nrack = "r1"',
        'zone = "Paris"\nrack = "r1"',
    )
    assert of_kind(model_of(text).places, "rack") == {
        "r1 of zone Amsterdam": ("p2",),
        "r1 of zone Frankfurt": ("p1",),
        "r1 of zone Paris": ("p3",),
    }
    assert found(text, "OC403") == []


def test_a_zone_of_one_name_in_two_regions_is_two_zones() -> None:
    places = Places([broker(f"p{i}", region=region, zone="a", rack="r") for i, region in enumerate(("eu", "us"))])
    assert of_kind(places, "zone") == {"a of region eu": ("p0",), "a of region us": ("p1",)}
    assert of_kind(places, "rack") == {
        "r of zone a of region eu": ("p0",),
        "r of zone a of region us": ("p1",),
    }


def test_a_name_that_is_there_once_needs_no_other_beside_it() -> None:
    places = Places([broker("p1", region="eu", zone="a", rack="r1"), broker("p2", region="eu", zone="b", rack="r2")])
    assert list(of_kind(places, "rack")) == ["r1", "r2"]


def test_capitals_and_spaces_make_no_other_place() -> None:
    spelled = ("eu-1a", "EU-1A", " eu-1a ")
    places = Places([broker(f"p{i}", zone=zone, rack="r1") for i, zone in enumerate(spelled)])
    assert of_kind(places, "zone") == {"eu-1a": ("p0", "p1", "p2")}
    assert of_kind(places, "rack") == {"r1": ("p0", "p1", "p2")}


def test_names_that_differ_in_more_than_that_are_places_of_their_own() -> None:
    places = Places([broker("p1", zone="eu-1a"), broker("p2", zone="eu_1a"), broker("p3", zone="eu1a")])
    assert len(of_kind(places, "zone")) == 3


def test_who_leaves_the_zone_out_stands_in_the_only_one_that_has_its_rack() -> None:
    brokers = [broker("p1", region="eu", zone="a", rack="r1"), broker("p2", rack="r1")]
    places = Places(brokers)
    assert of_kind(places, "zone") == {"a": ("p1", "p2")}
    assert of_kind(places, "region") == {"eu": ("p1", "p2")}
    assert of_kind(Places([*brokers, broker("p3", zone="b", rack="r1")]), "rack") == {
        "r1": ("p2",),
        "r1 of zone a": ("p1",),
        "r1 of zone b": ("p3",),
    }


def test_the_usual_spelling_names_the_place_and_the_others_are_told() -> None:
    text = THREE % ('zone = "eu-1a"', 'zone = "EU-1A"', 'zone = "eu-1a"')
    (finding,) = found(text, "OC208")
    assert finding.message == "zone 'eu-1a' is written 'EU-1A' by p2: one place"
    assert (finding.brokers, finding.line) == (("p2",), 11)
    assert found(text, "OC403")[0].message.startswith("zone eu-1a has all primaries")


def test_regions_that_differ_in_capitals_are_no_wan() -> None:
    assert found(THREE % ('region = "eu"', 'region = "EU"', 'region = "eu "'), "OC702") == []


def test_a_switch_stands_in_the_rack_of_its_zone_only() -> None:
    nodes = [ListedNode(name=f"sw{zone}", zone=zone, rack="r1") for zone in "ab"]
    places = Places([broker("p1", zone="a", rack="r1"), broker("p2", zone="b", rack="r1"), *nodes])
    assert places.domains["rack", "r1 of zone a"].nodes == ("swa",)


def test_a_name_that_looks_like_a_told_apart_one_takes_no_others_place() -> None:
    places = Places(
        [broker("p1", rack="r of zone a"), broker("p2", zone="a", rack="r"), broker("p3", zone="b", rack="r")]
    )
    assert sorted(of_kind(places, "rack").values()) == [("p1",), ("p2",), ("p3",)]


@pytest.mark.parametrize("name", ["B", " b", "b\u00a0", "\uff22"])
def test_what_people_do_not_mean_is_no_part_of_a_name(name: str) -> None:
    assert one_spelling(name) == "b"
