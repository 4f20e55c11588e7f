"""Links by TLS: a certificate of the cluster's authority proves a broker, and no other does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openclust.cli.local_cluster import LocalCluster, plan_cluster

from ..clients.certificates import Authority
from ..clients.deadline import eventually
from .running_cluster import RunningCluster, run_command

pytestmark = pytest.mark.sockets

WAIT_S = 15.0


@pytest.fixture
def plan(tmp_path: Path) -> LocalCluster:
    plan = plan_cluster("test", tmp_path / "cluster", 2)
    plan.write()
    return plan


@pytest.fixture
def running(plan: LocalCluster) -> Iterator[RunningCluster]:
    cluster = RunningCluster(plan)
    yield cluster
    for each in cluster.primaries.values():
        each.stop()


def certified(plan: LocalCluster, authorities: list[Authority]) -> None:
    """Each broker has a configuration of its own, that names a certificate of the authority in its place."""
    whole = plan.config_file.read_text()
    for place, authority in zip(plan.primaries, authorities, strict=True):
        cert, key = authority.issue(place.name, server=True)
        section = f'[cluster]\npeer_cert = "{cert}"\npeer_key = "{key}"\npeer_ca = "{authorities[0].ca}"\n\n'
        (plan.folder / f"{place.name}.toml").write_text(section + whole)


def start(running: RunningCluster, plan: LocalCluster) -> None:
    for name, each in running.primaries.items():
        command = each._cluster.command(each.place)
        at = command.index("--config") + 1
        each.start([*command[:at], str(plan.folder / f"{name}.toml"), *command[at + 1 :]])


def link(running: RunningCluster, name: str) -> tuple[str, str]:
    seen = running.primaries[name].ask()
    return (seen["links"][0]["state"], seen["links"][0]["error"]) if seen else ("", "")


def test_brokers_with_certificates_of_one_authority_make_a_cluster(
    plan: LocalCluster, running: RunningCluster, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certified(plan, [authority, authority])
    start(running, plan)
    running.wait_until_settled()
    assert "no cluster secret" not in running.logs()


def test_a_certificate_of_another_authority_is_refused(
    plan: LocalCluster, running: RunningCluster, tmp_path: Path
) -> None:
    certified(plan, [Authority(tmp_path), Authority(tmp_path, "Foreign Authority")])
    start(running, plan)
    eventually(lambda: link(running, "p1")[1] != "" and link(running, "p2")[1] != "", WAIT_S)
    states = {link(running, name)[0] for name in ("p1", "p2")}
    assert "connected" not in states, running.logs()
    assert running.roots() == []


def test_part_of_what_tls_needs_is_an_error_that_names_the_rest(tmp_path: Path) -> None:
    cert, _ = Authority(tmp_path).issue("p1", server=True)
    done = run_command("start", "--cluster-key", "k", "--set", f"cluster.peer_cert={cert}", "--check-config")
    assert done.returncode == 2
    assert "needs cluster.peer_key and cluster.peer_ca too" in done.stderr
