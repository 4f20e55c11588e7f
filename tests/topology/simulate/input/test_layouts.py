"""Layouts of cluster files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from openclust.shell.config.schema import ConfigError
from tests.support.paths import ROOT
from tests.support.topology.files import SOUND, links, model_of, nodes
from topology.simulate.input.layout import LocalClients, SharedHost, layout_of_counts
from topology.simulate.input.layouts import LATENCY_US, layout_of_model, read_model, resized


def test_primaries_come_first_and_are_as_far_as_their_links() -> None:
    text = SOUND + nodes("sw1") + links("p1 sw1", "p2 sw1", "p3 sw1", "s1 sw1", "s2 sw1", latency_ms=1.5)
    layout = layout_of_model(model_of(text))
    assert layout.names == ("p1", "p2", "p3", "s1", "s2")
    assert layout.primaries == (0, 1, 2)
    assert {us for row in layout.latency_us for us in row} == {0, 3000}
    assert layout.cluster_key == "orders-eu"


def test_secondaries_reach_each_other_through_a_primary() -> None:
    layout = layout_of_model(model_of(SOUND + links("p1 s1", latency_ms=2) + links("p1 s2", latency_ms=5)))
    assert layout.latency_us[3][4] == layout.latency_us[4][3] == 7000
    assert layout.latency_us[0][1] == LATENCY_US, "no link of these is listed"


def test_what_a_file_says_of_its_brokers_is_taken() -> None:
    text = SOUND.replace('client = "10.0.1.2:5672"', 'client = "10.0.1.2:5672"\nweight = 3\nmemory_mb = 4000\n')
    text += '\n[redirect]\nmode = "active-passive"\nweight = 2\n'
    layout = layout_of_model(model_of(text))
    assert [each.weight for each in layout.sites] == [2, 2, 2, 3, 2]
    assert [each.memory_mb for each in layout.sites] == [0, 0, 0, 4000, 0]
    assert layout.redirect.mode == "active-passive"


def test_brokers_of_one_host_share_its_cores_where_there_are_fewer_than_brokers() -> None:
    text = SOUND.replace('client = "10.0.1.2:5672"', 'client = "10.0.1.2:5672"\nhost = "h1"\ncores = 1\n')
    text = text.replace("[cluster.primaries.p1]", '[cluster.primaries.p1]\nhost = "h1"')
    layout = layout_of_model(model_of(text))
    assert layout.hosts == (SharedHost(brokers=(0, 3), cores=1),)
    assert layout_of_model(model_of(text.replace("cores = 1", "cores = 2"))).hosts == ()
    assert layout_of_model(model_of(text.replace("cores = 1", ""))).hosts == (), "nothing is said of its cores"


def test_clients_of_the_host_want_a_core_too() -> None:
    clients = LocalClients(message_us=20, share=0.1)
    sites = tuple(msgspec.structs.replace(site, host="h", cores=2) for site in layout_of_counts(2, 0).sites)
    layout = msgspec.structs.replace(layout_of_counts(2, 0), sites=sites)
    assert layout.hosts == ()
    assert msgspec.structs.replace(layout, local_clients=clients).hosts == (
        SharedHost(brokers=(0, 1), cores=2, clients=clients),
    )


def test_a_design_is_laid_on_it() -> None:
    assert layout_of_model(model_of(SOUND), "single").names == ("p1",)
    assert all(each.is_primary for each in layout_of_model(model_of(SOUND), "virtual-synchrony").sites)


def test_the_shipped_eight_are_eight() -> None:
    layout = layout_of_model(read_model(ROOT / "conf" / "topologies" / "eight.toml"))
    assert layout.names == ("p1", "p2", "p3", "s1", "s2", "s3", "s4", "s5")
    assert {us for row in layout.latency_us for us in row} == {0, 200}
    assert all(each.memory_mb == 16_000 and each.bandwidth_mbit == 10_000 for each in layout.sites)


def test_a_file_of_no_cluster_is_told(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('cluster_key = "k"\n')
    with pytest.raises(ConfigError, match="there is no primary in it"):
        read_model(path)


def test_a_smaller_one_keeps_the_first_of_each_kind() -> None:
    layout = resized(layout_of_counts(3, 5, latency_us=300), 1, 2)
    assert layout.names == ("p1", "s1", "s2") and layout.primaries == (0,)
    assert layout.latency_us == ((0, 300, 300), (300, 0, 300), (300, 300, 0))


def test_a_larger_one_has_more_like_the_last_with_names_of_their_own() -> None:
    text = SOUND.replace("secondaries.s2]", 'secondaries.s3]\nmemory_mb = 500\nhost = "h3"\ncores = 1')
    layout = resized(layout_of_model(model_of(text)), 4, 4)
    assert layout.hosts == (), "more of them have hosts of their own"
    assert layout.names == ("p1", "p2", "p3", "p4", "s1", "s3", "s2", "s4")
    assert [each.memory_mb for each in layout.sites][4:] == [0, 500, 500, 500]
    assert layout.primaries == (0, 1, 2, 3)
    assert all(row[i] == 0 for i, row in enumerate(layout.latency_us))


def test_secondaries_of_a_file_without_any_are_like_its_primaries() -> None:
    layout = resized(layout_of_counts(1, 0), 1, 2)
    assert layout.names == ("p1", "s1", "s2") and layout.primaries == (0,)
    assert layout.latency_us[1][2] == LATENCY_US
