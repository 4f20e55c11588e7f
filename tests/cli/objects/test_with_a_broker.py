"""The commands and a real broker: they ask for what there is, and messages that are moved are all there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.clients.deadline import eventually
from tests.support.manage.running_api import RunningApi, running_api
from tests.support.paths import ROOT

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running


class Commands:
    """Runs commands against one broker."""

    def __init__(self, api: RunningApi) -> None:
        self._api = api

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(openclust, [*arguments, "--url", self._api.url], prog_name="openclust")

    def right(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def amqp_url(self) -> str:
        port = self._api.on_loop(lambda server: server.listeners[0].address[1])
        return f"amqp://127.0.0.1:{port}"

    def payloads(self, queue: str) -> list[str]:
        found = self("queues", "get", queue, "--count", "1000", "--json").stdout
        return [each["payload"] for each in json.loads(found)]


@pytest.fixture
def commands(api: RunningApi) -> Iterator[Commands]:
    made = Commands(api)
    yield made
    for row in json.loads(made.right("queues", "list", "--json")):
        made.right("queues", "delete", row["name"])


@pytest.mark.parametrize(
    "noun", ["queues", "exchanges", "bindings", "connections", "channels", "consumers", "policies", "vhosts"]
)
def test_every_list_is_shown_for_people_and_for_programs(commands: Commands, noun: str) -> None:
    assert isinstance(json.loads(commands.right(noun, "list", "--json")), list)
    assert commands.right(noun, "list").count("\n") >= 1


def test_a_queue_is_declared_filled_looked_at_purged_and_deleted(commands: Commands) -> None:
    assert commands.right("queues", "declare", "orders") == "Declared orders.\n"
    commands.right("publish", "", "orders", "hello")
    commands.right("publish", "", "orders", "again")
    shown = commands.right("queues", "list", "--name", "^ord", "--regex", "--columns", "name,messages")
    assert shown == "name    messages\norders  2\n"
    assert commands.payloads("orders") == ["hello", "again"]
    assert commands("queues", "delete", "orders", "--if-empty").exit_code == 1
    commands.right("queues", "purge", "orders")
    commands.right("queues", "delete", "orders", "--if-empty")
    assert commands("queues", "delete", "orders").exit_code == 2


def test_policies_are_set_listed_and_cleared(commands: Commands) -> None:
    commands.right("policies", "set", "short", "^short", '{"max-length": 1}', "--apply-to", "queues")
    (row,) = json.loads(commands.right("policies", "list", "--json"))
    assert (row["name"], row["definition"]) == ("short", {"max-length": 1})
    commands.right("policies", "clear", "short")
    assert json.loads(commands.right("policies", "list", "--json")) == []


def test_virtual_hosts_are_added_and_deleted(commands: Commands) -> None:
    commands.right("vhosts", "add", "other")
    assert "other\n" in commands.right("vhosts", "list", "--columns", "name")
    commands.right("vhosts", "delete", "other", "--yes")


def test_messages_are_moved_in_their_order_with_all_that_they_have(commands: Commands) -> None:
    for queue in ("from", "to"):
        commands.right("queues", "declare", queue)
    for number in range(120):
        commands.right("publish", "", "from", str(number))
    properties = '{"type": "t", "expiration": "600000", "user_id": "guest", "priority": 4, "timestamp": 77}'
    commands.right("publish", "", "from", "last", "--properties", properties, "--headers", '{"a": {"b": [1, true]}}')
    move = ("queues", "move", "from", "to", "--amqp-url", commands.amqp_url())
    assert commands.right(*move, "--limit", "20") == "Moved 20 messages from from to to.\n"
    assert commands.right(*move) == "Moved 101 messages from from to to.\n"
    assert commands.right(*move) == "Moved 0 messages from from to to.\n"
    assert commands.payloads("to") == [*map(str, range(120)), "last"]
    assert commands.payloads("from") == []
    last = json.loads(commands("queues", "get", "to", "--count", "200", "--json").stdout)[-1]
    kept = {name: last["properties"].get(name) for name in ("type", "expiration", "priority", "timestamp", "headers")}
    assert kept == {
        "type": "t",
        "expiration": "600000",
        "priority": 4,
        "timestamp": 77,
        "headers": {"a": {"b": [1, True]}},
    }


def test_a_message_that_would_be_copied_again_loses_what_copies_it(commands: Commands) -> None:
    for queue in ("from", "to", "copy"):
        commands.right("queues", "declare", queue)
    commands.right("publish", "", "from", "x", "--headers", '{"CC": ["copy"]}')
    commands.right("queues", "move", "from", "to", "--amqp-url", commands.amqp_url())
    assert (commands.payloads("to"), commands.payloads("copy")) == (["x"], ["x"])


def test_messages_that_the_target_refuses_stay_where_they_were(commands: Commands) -> None:
    commands.right("queues", "declare", "from")
    arguments = '{"x-max-length": 2, "x-overflow": "reject-publish"}'
    commands.right("queues", "declare", "full", "--arguments", arguments)
    for number in range(5):
        commands.right("publish", "", "from", str(number))
    result = commands("queues", "move", "from", "full", "--amqp-url", commands.amqp_url())
    assert result.exit_code == 2
    assert "2 messages moved to full, the others are where they were" in result.stderr
    assert commands.payloads("full") == ["0", "1"]
    assert eventually(lambda: commands.payloads("from") == ["2", "3", "4"])


def test_a_queue_to_move_to_must_be_there(commands: Commands) -> None:
    commands.right("queues", "declare", "from")
    commands.right("publish", "", "from", "x")
    result = commands("queues", "move", "from", "none", "--amqp-url", commands.amqp_url())
    assert (result.exit_code, commands.payloads("from")) == (2, ["x"])
    assert "no queue 'none'" in result.stderr


def test_a_list_loads_no_large_library(api: RunningApi) -> None:
    """The command is to start at once: within 0.4 seconds."""
    code = f"""
import sys
from openclust.cli.main import openclust
try:
    openclust.main(["queues", "list", "--url", "{api.url}"], prog_name="openclust")
except SystemExit:
    pass
large = {{"aiohttp", "aio_pika", "aiormq", "networkx", "pyspark", "pandas", "matplotlib", "rich", "asyncio", "re2"}}
print("LOADED", sorted(large & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout.endswith("LOADED []\n"), done.stderr
