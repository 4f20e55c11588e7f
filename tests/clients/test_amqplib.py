"""amqplib, the client of the Node world: the scenarios of node/scenarios.js, one test each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clients.broker_process import Broker

pytestmark = pytest.mark.sockets

HERE = Path(__file__).parent / "node"
# Below the virtual environment: thrown away with it, and not fetched anew for every run.
HOME = Path(sys.prefix) / "openclust-node"
SCENARIOS = re.findall(r"^  (?:async )?(\w+) \(connection.*\{$", (HERE / "scenarios.js").read_text(), re.MULTILINE)


@pytest.fixture(scope="session")
def node() -> str:
    """The node binary, with amqplib installed in HOME."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        reason = "these tests need node and npm on the PATH: install Node.js 18 or newer"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    HOME.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_text()
    stamp = HOME / "installed.json"
    if not stamp.exists() or stamp.read_text() != wanted:
        (HOME / "package.json").write_text(wanted)
        command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        installed = subprocess.run(command, cwd=HOME, capture_output=True, text=True, timeout=180)
        if installed.returncode != 0:
            pytest.fail(f"npm could not install amqplib into {HOME}:\n{installed.stderr}")
        stamp.write_text(wanted)
    return node


def test_every_scenario_is_found(node: str) -> None:
    listed = subprocess.run(
        [node, HERE / "scenarios.js"], env=environment(), capture_output=True, text=True, timeout=20
    )
    assert listed.stdout.split() == SCENARIOS, listed.stderr


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_amqplib(node: str, broker: Broker, scenario: str) -> None:
    command = [node, str(HERE / "scenarios.js"), broker.url, scenario]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stderr


def environment() -> dict[str, str]:
    # scenarios.js stays in the source tree, its packages do not.
    return os.environ | {"NODE_PATH": str(HOME / "node_modules")}
