"""Debian's Prometheus scrapes a running cluster: `python -m tests.conformance.prometheus`, and in `make conformance`.

promtool checks what every broker answers; each query of the board must return rows; each alert must be silent, and what
it asks about must be there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pika

from tests.manage.metrics.queries import RULES, alerts, board_queries, concrete, selectors
from tests.support.clients.broker_process import free_port
from tests.support.cluster.running_cluster import RunningCluster, running_cluster

LOGIN = "Basic " + b64encode(b"guest:guest").decode()
PATHS = ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_coarse_metrics&family=exchange_bindings")
SCRAPES_S = 10.0
"""So long messages flow: there is something in every rate then."""
START_WAIT_S = 30.0
WITHOUT_TLS = {"openclust_certificate_expires_seconds"}
"""What a cluster without certificates does not have."""

CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: openclust
    basic_auth: {{username: guest, password: guest}}
    static_configs:
      - targets: {targets}
        labels: {{cluster: main}}
"""


@contextmanager
def running_prometheus(folder: Path, targets: list[str]) -> Iterator[Callable[[str, dict[str, str]], Any]]:
    """A Prometheus that scrapes these every second; it is asked by a path of its API and the query string."""
    folder.mkdir(parents=True)
    port = free_port()
    file = folder / "prometheus.yml"
    file.write_text(CONFIGURATION.format(rules=RULES, targets=json.dumps(targets)), encoding="utf-8")
    command = [
        *("prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    def ask(path: str, query: dict[str, str]) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urlencode(query)}", timeout=20) as answer:
            return json.loads(answer.read())["data"]

    try:
        end = time.monotonic() + START_WAIT_S
        while len(_up(ask)) < len(targets):
            if time.monotonic() > end or process.poll() is not None:
                raise RuntimeError(f"Prometheus does not scrape: {(folder / 'out').read_text(errors='replace')[-500:]}")
            time.sleep(0.5)
        yield ask
    finally:
        process.terminate()
        process.wait(60)


def _up(ask: Callable[[str, dict[str, str]], Any]) -> list[Any]:
    try:
        found: list[Any] = ask("query", {"query": "up == 1"})["result"]
    except OSError:
        return []
    return found


def traffic(cluster: RunningCluster) -> None:
    """Messages of every kind at every broker, for some seconds."""
    connections = []
    for broker in cluster.brokers.values():
        connection = pika.BlockingConnection(pika.URLParameters(f"amqp://127.0.0.1:{broker.place.client_port}/"))
        channel = connection.channel()
        channel.queue_declare("prometheus", durable=True)
        channel.queue_declare(f"private-{broker.name}", exclusive=True)
        channel.queue_bind(f"private-{broker.name}", "amq.topic", "#")
        channel.basic_consume("prometheus", lambda channel, method, *_: channel.basic_ack(method.delivery_tag))
        channel.basic_consume(f"private-{broker.name}", lambda *_: None, auto_ack=True)
        channel.confirm_delivery()
        connections.append((connection, channel))
    end = time.monotonic() + SCRAPES_S
    while time.monotonic() < end:
        for connection, channel in connections:
            for exchange, key in (("", "prometheus"), ("amq.topic", "a.b"), ("amq.direct", "nobody")):
                channel.basic_publish(exchange, key, b"x" * 200, pika.BasicProperties(delivery_mode=2))
            connection.process_data_events(0)
    for connection, _ in connections:
        connection.close()


def text_problems(cluster: RunningCluster) -> Iterator[str]:
    """What promtool finds in the answers of all brokers."""
    for broker in cluster.brokers.values():
        for path in PATHS:
            request = urllib.request.Request(
                f"http://127.0.0.1:{broker.place.http_port}{path}", headers={"Authorization": LOGIN}
            )
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read()
            ran = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
            if ran.returncode:
                yield f"{broker.name}{path}: {ran.stderr.decode()[-300:]}"


def query_problems(ask: Callable[[str, dict[str, str]], Any]) -> Iterator[str]:
    """Queries without rows, and alerts that are raised."""

    def rows(query: str) -> int:
        return len(ask("query", {"query": concrete(query)})["result"])

    for title, query in board_queries():
        if not rows(query):
            yield f"board, {title}: no rows for {query}"
    for alert in alerts():
        for selector in selectors(alert.expression):
            if selector not in WITHOUT_TLS and not rows(selector):
                yield f"{alert.name}: there is no {selector}"
    for raised in ask("alerts", {})["alerts"]:
        if raised["state"] == "firing":
            text = raised["annotations"]["summary"]
            yield f"{raised['labels']['alertname']} is raised in a cluster that is well: {text}"


def prometheus_holds(folder: Path, cluster: RunningCluster) -> bool:
    """Whether Prometheus takes all that this cluster says; prints what it does not."""
    targets = [f"127.0.0.1:{broker.place.http_port}" for broker in cluster.brokers.values()]
    with running_prometheus(folder, targets) as ask:
        traffic(cluster)
        problems = [*text_problems(cluster), *query_problems(ask)]
    for problem in problems:
        print(problem)
    count = len(list(board_queries()))
    print(f"Prometheus: {count} queries of the board, {len(alerts())} alerts, {len(problems)} problems")
    return not problems


def main() -> int:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_cluster(Path(folder) / "cluster", primaries=3, secondaries=2) as cluster,
    ):
        return 0 if prometheus_holds(Path(folder) / "prometheus", cluster) else 1


if __name__ == "__main__":
    sys.exit(main())
