"""docs/clients.md: its programs run, and its table has every parameter."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from openclust.client import connect, connect_robust
from tests.support.clients.broker_process import free_port, running_broker
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

CONSUME_ONE = """
def take(channel, method, properties, body):
    print(body.decode())
    channel.basic_ack(method.delivery_tag)
    channel.stop_consuming()

with pika.BlockingConnection(pika.URLParameters(URLS[1])) as connection:
    channel = connection.channel()
    channel.queue_declare("greetings", durable=True)
    channel.basic_publish("", "greetings", b"hello")
consume(take)
"""


@pytest.mark.sockets
def test_the_programs_run_where_the_first_of_their_brokers_is_down(tmp_path: Path) -> None:
    ours, pikas = PROGRAMS
    with running_broker(tmp_path) as broker:
        ports = {"5672": str(free_port()), "5673": str(broker.port)}
        for program, output in [(ours, f"hello by {broker.port}\n"), (pikas + CONSUME_ONE, "hello\n")]:
            text = re.sub(r"567[23]", lambda found: ports[found[0]], program)
            done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=20)
            assert (done.returncode, done.stdout) == (0, output), done.stderr


@pytest.mark.parametrize("function", [connect, connect_robust])
def test_every_parameter_is_explained_with_its_default(function: object) -> None:
    table = dict(re.findall(r"^\| `(\**\w+)` \| ((?:`[^`]*`)?) ?\|", PAGE, re.MULTILINE))
    signature = inspect.signature(function)  # type: ignore[arg-type]
    wanted = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            wanted[f"**{name}"] = ""
        else:
            default = parameter.default
            text = '""' if default == "" else repr(default)
            wanted[name] = "" if default is parameter.empty else f"`{text}`"
    assert {name: table.get(name) for name in wanted} == wanted
