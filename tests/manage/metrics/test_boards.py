"""The alerts and the board in conf/ ask only for metrics that there are, and the page explains each alert."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclust.manage.metrics.object_metrics import CUT, FAMILIES
from openclust.manage.metrics.openclust_metrics import OPENCLUST_METRICS
from openclust.manage.metrics.rabbitmq_metrics import RABBITMQ_METRICS
from tests.manage.metrics.queries import BOARD, RULES, alerts, board_queries, names_in
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
CONFIGURATION = ROOT / "conf" / "prometheus" / "prometheus.yml"

METRICS = (*RABBITMQ_METRICS, *OPENCLUST_METRICS, *(each for family in FAMILIES.values() for each in family), CUT)
SERIES = {
    name
    for each in METRICS
    for name in (
        [f"{each.name}_{end}" for end in ("bucket", "count", "sum")] if each.kind == "histogram" else [each.name]
    )
} | {"up"}


def queries() -> Iterator[tuple[str, str]]:
    for alert in alerts():
        yield alert.name, alert.expression
    for title, query in board_queries():
        yield title, query
    watched = PAGE.partition("## What to watch")[2].partition("##")[0]
    for query in re.findall(r"^\| `([^`]+)` \|", watched, re.MULTILINE):
        yield "docs/monitoring.md", query


@pytest.mark.parametrize(("name", "query"), list(queries()))
def test_a_query_names_only_metrics_and_labels_that_there_are(name: str, query: str) -> None:
    found = names_in(query)
    assert found, f"{name} asks for nothing"
    assert found <= SERIES, f"{name} asks for {', '.join(sorted(found - SERIES))}"
    labels = {label for each in METRICS for label in each.labels} | {"cluster", "instance", "job", "le", "state"}
    assert set(re.findall(r"[{,]\s*(\w+)\s*=~?", query)) <= labels


def test_each_alert_has_a_section_of_the_page_and_each_section_an_alert() -> None:
    told = dict(re.findall(r"^### (.+)\n\n`(\w+)`", PAGE, re.MULTILINE))
    found = {alert.name: alert.page for alert in alerts()}
    assert set(told.values()) == set(found)
    anchors = {name: f"docs/monitoring.md#{title.lower().replace(' ', '-')}" for title, name in told.items()}
    assert anchors == found


def test_each_alert_names_how_bad_it_is() -> None:
    assert {alert.severity for alert in alerts()} == {"critical", "warning"}


def test_the_board_has_panels_of_one_number_each() -> None:
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels]
    assert len(set(places)) == len(places), "two panels lie in one place"
    assert all(each["gridPos"]["x"] + each["gridPos"]["w"] <= 24 for each in panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
@pytest.mark.parametrize(("what", "path"), [("config", CONFIGURATION), ("rules", RULES)])
def test_prometheus_takes_the_files(what: str, path: Path) -> None:
    ran = subprocess.run(["promtool", "check", what, str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


WELL = {
    'up{job="openclust"}': "1x60",
    "openclust_has_root": "1x60",
    'openclust_role{role="root"}': "1x60",
    "openclust_root_changes_total": "1x60",
    "openclust_quorum_critical": "0x60",
    "openclust_ready": "1x60",
    "openclust_draining": "0x60",
    'openclust_link_lag_entries{peer="p2"}': "10x60",
    'openclust_link_state{peer="p2",state="connected"}': "1x60",
    'openclust_link_dropped_messages_total{peer="p2"}': "7x60",
    "openclust_definitions_diverged_total": "0x60",
    "openclust_publishers_blocked": "0x60",
    "openclust_store_ill": "0x60",
    "openclust_store_waiting_bytes": "1000x60",
    "openclust_store_waiting_limit_bytes": "67108864x60",
    "rabbitmq_disk_space_available_bytes": "80000000000x60",
    "rabbitmq_process_resident_memory_bytes": "100000000x60",
    "rabbitmq_resident_memory_limit_bytes": "1000000000x60",
    "rabbitmq_process_open_fds": "100x60",
    "rabbitmq_process_max_fds": "1000x60",
    'openclust_turn_seconds_bucket{le="0.01"}': "0+100x60",
    'openclust_turn_seconds_bucket{le="0.5"}': "0+100x60",
    'openclust_turn_seconds_bucket{le="+Inf"}': "0+100x60",
    'openclust_certificate_expires_seconds{key="tls.cert"}': "9000000x60",
    "openclust_unattended_queues": "0x60",
    "rabbitmq_global_messages_unroutable_dropped_total": "5x60",
    "rabbitmq_global_messages_unroutable_returned_total": "0x60",
    "openclust_refused_for_want_of_root_total": "3x60",
}
"""What a cluster without any trouble shows, minute by minute."""

ILL = {
    "OpenclustBrokerDown": {'up{job="openclust"}': "0x60"},
    "OpenclustNoRoot": {"openclust_has_root": "0x60"},
    "OpenclustSeveralRoots": {'openclust_role{role="root"}': "2x60"},
    "OpenclustRootChangesOften": {"openclust_root_changes_total": "0+1x60"},
    "OpenclustQuorumCritical": {"openclust_quorum_critical": "1x60"},
    "OpenclustNotReady": {"openclust_ready": "0x60"},
    "OpenclustFollowerLags": {'openclust_link_lag_entries{peer="p2"}': "20000x60"},
    "OpenclustLinkDown": {'openclust_link_state{peer="p2",state="connected"}': "0x60"},
    "OpenclustMessagesDropped": {'openclust_link_dropped_messages_total{peer="p2"}': "0+1x60"},
    "OpenclustDefinitionsDiverged": {"openclust_definitions_diverged_total": "0+1x60"},
    "OpenclustPublishersBlocked": {"openclust_publishers_blocked": "3x60"},
    "OpenclustDiskIll": {"openclust_store_ill": "1x60"},
    "OpenclustDiskSlow": {"openclust_store_waiting_bytes": "60000000x60"},
    "OpenclustDiskSpaceLow": {"rabbitmq_disk_space_available_bytes": "80000000000-1000000000x60"},
    "OpenclustMemoryHigh": {"rabbitmq_process_resident_memory_bytes": "900000000x60"},
    "OpenclustFilesHigh": {"rabbitmq_process_open_fds": "950x60"},
    "OpenclustTurnsLong": {'openclust_turn_seconds_bucket{le="0.01"}': "0+90x60"},
    "OpenclustCertificateExpires": {'openclust_certificate_expires_seconds{key="tls.cert"}': "600000x60"},
    "OpenclustQueueWithoutConsumers": {"openclust_unattended_queues": "1x60"},
    "OpenclustMessagesUnroutable": {"rabbitmq_global_messages_unroutable_dropped_total": "0+60x60"},
    "OpenclustMessagesRefused": {"openclust_refused_for_want_of_root_total": "0+1x60"},
}


def test_each_alert_has_an_example() -> None:
    assert set(ILL) == {alert.name for alert in alerts()}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_each_alert_is_raised_by_what_it_is_about_and_no_other_is(tmp_path: Path) -> None:
    cases = [_case(WELL, [])]
    cases += [_case({**WELL, **changed}, [name]) for name, changed in ILL.items()]
    file = tmp_path / "alerts_test.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}))
    ran = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _case(series: dict[str, str], raised: list[str]) -> dict[str, object]:
    """A test of Prometheus: after forty minutes these alerts are raised, and no others."""
    labelled = {
        f'{name}{{cluster="main",instance="p1",{labels}'
        if labels
        else f'{name}{{cluster="main",instance="p1"}}': values
        for (name, _, labels), values in ((each.partition("{"), values) for each, values in series.items())
    }
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in labelled.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "40m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in raised],
            }
        ],
    }
