"""A thousand brokers with their network: all rules within two seconds and 300 MB, the interpreter's start included."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from itertools import combinations, islice
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.topology.files import SOUND
from topology.lint.check import read
from topology.model.building import build
from topology.model.loss import losses
from topology.survive.reach import ClusterInBits

ASKED = """
import json, resource, sys
from topology.lint.check import check
report, model = check(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_SELF)
# ru_maxrss is that of the process it was forked from, if that was larger.
(peak,) = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")]
found = [report.brokers, report.is_bad_input, len(report.findings), used.ru_utime + used.ru_stime, peak]
print(json.dumps(found))
"""
RACKS, ZONES, PRIMARIES, SECONDARIES = 40, 10, 9, 991


def large() -> str:
    lines = [SOUND[: SOUND.index("[cluster.primaries")], "[topology]", "clients = 2000000", "shared_mbit = 500"]
    for i in range(PRIMARIES + SECONDARIES):
        section, name = ("cluster.primaries", f"p{i}") if i < PRIMARIES else ("topology.secondaries", f"s{i}")
        host = f"10.1.{i // 250}.{i % 250 + 1}"
        rack = i % RACKS
        lines += [f"[{section}.{name}]", f'client = "{host}:5672"', f'peer = "{host}:5682"', f'rack = "r{rack}"']
        lines += [f'zone = "z{rack % ZONES}"', "memory_mb = 8000", "bandwidth_mbit = 10000"]
        lines += ["[[topology.links]]", f'between = ["{name}", "tor{rack}"]', "latency_ms = 0.05"]
    for rack in range(RACKS):
        lines += [f"[topology.nodes.tor{rack}]", f'zone = "z{rack % ZONES}"']
        for spine in (rack % ZONES, (rack + 1) % ZONES):
            lines += ["[[topology.links]]", f'between = ["tor{rack}", "spine{spine}"]', "latency_ms = 0.2"]
    lines += [f'[topology.nodes.spine{zone}]\nzone = "z{zone}"' for zone in range(ZONES)]
    return "\n".join(lines)


@pytest.mark.slow
def test_a_thousand_brokers_take_two_seconds_and_300_mb_at_most(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text(large(), encoding="utf-8")
    root = ROOT
    shown = subprocess.run([sys.executable, "-c", ASKED, path], cwd=root, capture_output=True, text=True, check=True)
    brokers, is_bad_input, findings, cpu_s, peak_kb = json.loads(shown.stdout)
    assert (brokers, is_bad_input) == (1_000, False)
    assert findings >= RACKS, "each switch of a rack is the only way to its brokers"
    assert cpu_s < 2
    assert peak_kb < 300_000


@pytest.mark.slow
def test_what_is_remembered_of_failures_has_a_bound_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all primaries reach was kept for each set of lost nodes and links: 434 MB for two failures of these."""
    path = tmp_path / "large.toml"
    path.write_text(large(), encoding="utf-8")
    model = build(read(path))
    monkeypatch.setattr("topology.survive.reach.REMEMBERED_BYTES_MAX", 200_000)
    cluster = ClusterInBits(model)
    blows = [cluster.blow(each) for each in losses(model, ("node", "link"))]
    tracemalloc.start()
    for one, other in islice(combinations(blows, 2), 3_000):
        cluster.rows(one.network | other.network)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 1_000_000
