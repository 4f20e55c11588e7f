"""Links by TLS: a certificate of the cluster's authority proves a broker, and no other does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openclust.cli.cluster.local_cluster import LocalCluster, plan_cluster
from tests.support.clients.certificates import Authority
from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import RunningCluster, run_command

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
        command = plan.command(each.place)
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


def lines(running: RunningCluster, name: str, *texts: str) -> list[str]:
    """Lines of one broker's log that have all these texts."""
    log = running.primaries[name].log.read_text(errors="replace")
    return [line for line in log.splitlines() if all(text in line for text in texts)]


def wait_for_refusals(running: RunningCluster, why: str, alert: str, issuer: str) -> None:
    """All four ends of the two links say that it is the certificate of p2 that is refused, and why."""
    shown = f'certificate="CN=p2" issuer="CN={issuer}"'
    for name, *texts in (
        ("p1", "WARN  links: no link: the TLS handshake failed: " + why, "peer=p2", shown),
        ("p1", "WARN  tls: the TLS handshake of a broker failed: " + why, "peer=127.0.0.1:", shown),
        ("p2", "WARN  links: no link: it refuses our certificate (cluster.peer_cert): " + alert, "peer=p1", shown),
        ("p2", "WARN  tls: the TLS handshake of a broker failed: it refuses cluster.peer_cert: " + alert, shown),
    ):
        eventually(lambda name=name, texts=texts: lines(running, name, *texts), WAIT_S)  # type: ignore[misc]


def test_a_certificate_of_another_authority_is_refused_and_named_at_both_ends(
    plan: LocalCluster, running: RunningCluster, tmp_path: Path
) -> None:
    certified(plan, [Authority(tmp_path), Authority(tmp_path, "Foreign Authority")])
    start(running, plan)
    why = "no authority of cluster.peer_ca has signed its certificate"
    alert = "no authority is trusted there that has signed it"
    wait_for_refusals(running, why, alert, "Foreign Authority")
    states = {link(running, name)[0] for name in ("p1", "p2")}
    assert "connected" not in states, running.logs()
    assert running.roots() == []
    assert all(len(lines(running, name, "TLS handshake")) < 10 for name in ("p1", "p2")), running.logs()


def test_an_expired_certificate_is_named_and_a_renewed_one_makes_the_link_without_a_restart(
    plan: LocalCluster, running: RunningCluster, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certified(plan, [authority, authority])
    authority.issue("p2", server=True, days_left=-1)
    start(running, plan)
    wait_for_refusals(running, "its certificate has expired", "it has expired", "Test Authority")
    assert lines(running, "p2", "ERROR tls: cluster.peer_cert has expired", 'certificate="CN=p2"')
    authority.issue("p2", server=True, days_left=90)
    running.wait_until_settled()
    assert lines(running, "p2", "INFO  tls: read cluster.peer_cert again")


def test_part_of_what_tls_needs_is_an_error_that_names_the_rest(tmp_path: Path) -> None:
    cert, _ = Authority(tmp_path).issue("p1", server=True)
    done = run_command("start", "--cluster-key", "k", "--set", f"cluster.peer_cert={cert}", "--check-config")
    assert done.returncode == 2
    assert "needs cluster.peer_key and cluster.peer_ca too" in done.stderr
