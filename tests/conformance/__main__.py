"""Hold openclust against a real RabbitMQ, and people's tools against both: `make conformance`.

It prints a table of tool, calls tried, calls that work at RabbitMQ and here, and why one does not; the exit code is 1
if a call that works at RabbitMQ does not work here, at a cluster of 3 primaries and 2 secondaries asked at a secondary.
Prometheus scrapes that cluster too, for the queries of the board and of the alerts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.conformance.prometheus import prometheus_holds
from tests.conformance.rabbitmq import running_rabbitmq
from tests.conformance.record import SHAPES, recorded
from tests.conformance.scene import Broker
from tests.support.cluster.running_cluster import running_cluster

TOOLS = Path(__file__).with_name("tools")
SCRIPTS = {
    "rabbitmqadmin": "rabbitmqadmin_calls.py",
    "pyrabbit2": "pyrabbit2_calls.py",
    "rabbitmq-admin": "rabbitmq_admin_calls.py",
    "AMQPStorm": "amqpstorm_calls.py",
    "rabbitmq-stats (npm)": "rabbitmq_stats_calls.js",
    "Flower": "flower_calls.py",
    "nagios-plugins-rabbitmq": "nagios_calls.py",
}
TOOL_WAIT_S = 300.0


def calls_of(tool: str, broker: Broker) -> dict[str, str]:
    """Why each call of a tool fails; empty for those that work."""
    script = TOOLS / SCRIPTS[tool]
    runner = "node" if script.suffix == ".js" else os.environ["CONFORMANCE_PYTHON"]
    command = [runner, str(script), broker.http[0], str(broker.http[1]), str(broker.amqp[1])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_WAIT_S, check=False)
    lines: list[dict[str, Any]] = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return {line["call"]: line["error"] for line in lines} or {"start": ran.stderr[-300:]}


def compare(theirs: Broker, ours: Broker) -> bool:
    """Whether all calls of all tools that work at RabbitMQ work here too; prints the table."""
    table = Table("tool", "tried", "works at RabbitMQ", "works here", title="Tools for RabbitMQ's management API")
    problems = []
    for tool in SCRIPTS:
        there, here = calls_of(tool, theirs), calls_of(tool, ours)
        working = [call for call, error in there.items() if not error]
        also = [call for call in working if here.get(call, "not tried") == ""]
        problems += [f"{tool}: {call}: {here.get(call, 'not tried')}" for call in working if call not in also]
        table.add_row(tool, str(len(there)), str(len(working)), str(len(also)))
    Console(width=120).print(table)
    for problem in problems:
        print(problem)
    return not problems


def client_tests(theirs: Broker) -> bool:
    """Whether the tests of clients hold at RabbitMQ too: else they would hold openclust to something of its own."""
    url = f"amqp://{theirs.user}:{theirs.password}@{theirs.amqp[0]}:{theirs.amqp[1]}/"
    command = [sys.executable, "-m", "pytest", "-q", "tests/clients", "-p", "no:cacheprovider"]
    return subprocess.run(command, env=os.environ | {"OPENCLUST_TEST_URL": url}, check=False).returncode == 0


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, running_rabbitmq(Path(folder) / "rabbitmq") as theirs:
        SHAPES.write_text(json.dumps(recorded(theirs), indent=1, sort_keys=True) + "\n", encoding="utf-8")
        shapes = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/conformance"], check=False).returncode
        with running_cluster(Path(folder) / "cluster", primaries=3, secondaries=2) as cluster:
            place = cluster.secondaries["s1"].place
            works = compare(theirs, Broker(("127.0.0.1", place.client_port), ("127.0.0.1", place.http_port)))
            works = prometheus_holds(Path(folder) / "prometheus", cluster) and works
        clients = client_tests(theirs)
    return 0 if works and clients and not shapes else 1


if __name__ == "__main__":
    sys.exit(main())
