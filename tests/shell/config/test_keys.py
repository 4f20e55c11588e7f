"""Tables within a configuration: every key in them is checked and told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclust.shell.config.checks import setting_of
from openclust.shell.config.load import load
from openclust.shell.config.schema import Config, ConfigError, PhysicalNode, TopologyLink

TEXT = """\
cluster_key = "k"
[cluster.primaries.p1]
client = "a:1"
peer = "a:2"
zone = "z"
weight = 3
[cluster.primaries."p.2"]
client = "b:1"
peer = "b:2"
"""


def loaded(tmp_path: Path, more: str = "", *, name: str = "p1", environ: dict[str, str] | None = None) -> Config:
    file = tmp_path / "cluster.toml"
    file.write_text(TEXT + more)
    return load(file, environ={"OPENCLUST_NAME": name, **(environ or {})}).config


def problems(tmp_path: Path, more: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, more)
    return [each.removeprefix(f"{tmp_path}/cluster.toml line ") for each in caught.value.problems]


def test_what_the_tools_want_is_read_and_a_broker_starts_with_it(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        '[topology]\nclients = 5\n[topology.nodes.sw]\nkind = "router"\n'
        '[[topology.links]]\nbetween = ["p1", "sw"]\nlatency_ms = 2\nloss = 0.1\n',
    )
    assert config.listen.host == "a"
    assert config.cluster.primaries["p1"].zone == "z"
    assert config.topology.clients == 5
    assert config.topology.nodes == {"sw": PhysicalNode(kind="router")}
    assert config.topology.links == (TopologyLink(between=("p1", "sw"), latency_ms=2, loss=0.1),)


def test_the_weight_of_an_entry_is_the_brokers_share_of_the_clients(tmp_path: Path) -> None:
    assert loaded(tmp_path).redirect.weight == 3
    assert loaded(tmp_path, name="p.2").redirect.weight == 1
    assert loaded(tmp_path, "[redirect]\nweight = 7\n").redirect.weight == 7


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("zoen = 'a'\n", "10: cluster.primaries.p.2.zoen: unknown key 'zoen'; did you mean 'zone'?"),
        ("zone = 5\n", "10: cluster.primaries.p.2.zone: wanted text in quotes, not 5"),
        ("cores = -1\n", "10: cluster.primaries.p.2.cores: allowed is 0 to 4096, not -1"),
        ("cores = 9223372036854775808\n", "10: cluster.primaries.p.2.cores: wanted a number of at most 64 bits"),
        ("zone = 'a\\tb'\n".replace("'", '"'), "10: cluster.primaries.p.2.zone: must not contain control characters"),
        ("[cluster.primaries.p3]\nclient = 'c:1'\n", "10: cluster.primaries.p3: needs peer too"),
        ("[topology]\nlinks = 5\n", "11: topology.links: wanted a list, not 5"),
        ("[topology]\nlinks = [5]\n", "11: topology.links.0: wanted a table with the keys between, latency_ms, "
         "bandwidth_mbit, loss, not 5"),
        ("[[topology.links]]\nbetween = ['a', 'b']\nloss = nan\n", "12: topology.links.0.loss: allowed is 0 to 1, "
         "not nan"),
        ("[topology.nodes.sw]\nkind = 'swich'\n", "11: topology.nodes.sw.kind: wanted one of 'switch', 'router', "
         "'network', 'wan'; did you mean 'switch'?"),
        ("[topology.settings.p1]\ncluster.heartbeat = 5\n", "11: topology.settings.p1.cluster.heartbeat: unknown key "
         "'cluster.heartbeat'; did you mean 'cluster.heartbeat_ms'?"),
        ("[topology.settings.p1]\ncluster.heartbeat_ms = 5\n", "11: topology.settings.p1.cluster.heartbeat_ms: allowed "
         "is 20 to 60000, not 5"),
    ],
)  # fmt: skip
def test_a_mistake_within_a_table_is_told_with_its_line(tmp_path: Path, more: str, problem: str) -> None:
    assert problems(tmp_path, more) == [problem]


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    told = problems(tmp_path, "zoen = 1\nrakc = 2\n[listen]\nprot = 1\n")
    assert [each.partition(":")[0] for each in told] == ["13", "10", "11"]


def test_a_table_comes_from_the_environment_as_toml_writes_it(tmp_path: Path) -> None:
    variable = "OPENCLUST_TOPOLOGY_LINKS"
    one = '[{between = ["p1", "p.2"], latency_ms = 2}]'
    assert [each.latency_ms for each in loaded(tmp_path, environ={variable: one}).topology.links] == [2]
    for wrong in ("p1,p.2", '[{between = ["p1", "p.2"], latency = 2}]'):
        with pytest.raises(ConfigError, match=variable):
            loaded(tmp_path, environ={variable: wrong})


def test_a_setting_of_one_broker_goes_before_that_of_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, '[topology.settings.p1]\ncluster.heartbeat_ms = 200\n"listen.backlog" = 5\n')
    assert setting_of(config, "p1", "cluster.heartbeat_ms") == 200
    assert setting_of(config, "p1", "listen.backlog") == 5
    assert setting_of(config, "p.2", "cluster.heartbeat_ms") == 100
