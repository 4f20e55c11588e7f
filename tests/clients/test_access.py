"""Users, permissions, virtual hosts, and guest's loopback, against a broker with a users file."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pika
import psutil
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.support.clients.broker_process import Broker, running_broker
from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import (
    Client,
    channel_closed,
    consume,
    depth,
    get,
    publish,
    temporary_queue,
    unique,
)
from tests.support.paths import ROOT

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("own_process")]


class Guarded:
    """A broker whose users are in a file, and the command that changes them."""

    def __init__(self, broker: Broker, users: Path) -> None:
        self.broker = broker
        self.users = users

    def change(self, *arguments: str) -> None:
        change_users(self.users, *arguments)

    def as_user(self, name: str, password: str = "secret", vhost: str = "/") -> Client:
        return Client(Broker(self.broker.host, self.broker.port, name, password, vhost))


def change_users(users: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "openclust", "users", *arguments, "--file", str(users)]
    subprocess.run(command, input="secret\n", text=True, check=True, timeout=20, capture_output=True)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("access")
    users = folder / "users.json"
    patterns = ["--configure", "^mine\\.", "--write", "^(mine\\.|amq\\.default$)", "--read", "^(mine|shared)\\."]
    change_users(users, "add", "admin", "--password-stdin")
    change_users(users, "add", "limited", "--password-stdin", *patterns)
    with running_broker(folder, f'[auth]\nusers_file = "{users}"\n') as broker:
        yield Guarded(broker, users)


@pytest.fixture
def admin(guarded: Guarded) -> Iterator[BlockingChannel]:
    client = guarded.as_user("admin")
    yield client.channel()
    client.close()


@pytest.fixture
def limited(guarded: Guarded) -> Iterator[BlockingChannel]:
    client = guarded.as_user("limited")
    yield client.channel()
    client.close()


def test_the_right_password_and_no_other_lets_in(guarded: Guarded) -> None:
    assert guarded.as_user("admin").connect().is_open
    for name, password in (("admin", "wrong"), ("admin", ""), ("nobody", "secret"), ("guest", "guest")):
        with pytest.raises(AMQPError, match="403"):
            guarded.as_user(name, password).connect()


def test_what_the_patterns_allow_works(limited: BlockingChannel) -> None:
    queue, exchange = unique("x").replace("test", "mine", 1), unique("y").replace("test", "mine", 1)
    limited.queue_declare(queue, auto_delete=True)
    limited.exchange_declare(exchange, "fanout", auto_delete=True)
    limited.queue_bind(queue, exchange)
    publish(limited, "", b"1", exchange=exchange)
    assert get(limited, queue).body == b"1"
    publish(limited, queue, b"2")  # the default exchange is amq.default to the patterns
    assert get(limited, queue).body == b"2"
    limited.queue_delete(queue)


@pytest.mark.parametrize(
    "act", ["declare", "delete", "declare exchange", "publish", "consume", "get", "purge", "bind", "bind from", "dlx"]
)
def test_what_the_patterns_do_not_allow_is_refused(admin: BlockingChannel, limited: BlockingChannel, act: str) -> None:
    name = unique("other")
    mine = unique("x").replace("test", "mine", 1)
    admin.queue_declare(name, auto_delete=True)
    admin.exchange_declare(name, "fanout", auto_delete=True)
    limited.queue_declare(mine, exclusive=True)
    with channel_closed(403, name, "limited"):
        match act:
            case "declare":
                limited.queue_declare(name, auto_delete=True)
            case "delete":
                limited.queue_delete(name)
            case "declare exchange":
                limited.exchange_declare(name, "fanout", auto_delete=True)
            case "publish":
                publish(limited, "", b"x", exchange=name)
                depth(limited, mine)
            case "consume":
                consume(limited, name)
            case "get":
                limited.basic_get(name)
            case "purge":
                limited.queue_purge(name)
            case "bind":
                limited.queue_bind(name, "mine.any")
            case "bind from":
                limited.queue_bind(mine, name)
            case "dlx":
                limited.queue_declare(mine + ".2", arguments={"x-dead-letter-exchange": name})
    admin.queue_delete(name)
    admin.exchange_delete(name)


def test_reading_alone_does_not_allow_to_purge_away_definitions(
    admin: BlockingChannel, limited: BlockingChannel
) -> None:
    queue = unique("x").replace("test", "shared", 1)
    admin.queue_declare(queue)
    publish(admin, queue, b"x")
    assert get(limited, queue).body == b"x"
    connection = limited.connection
    with channel_closed(403, queue):
        limited.queue_delete(queue)
    assert connection.is_open
    admin.queue_delete(queue)


def test_a_user_without_permissions_on_a_virtual_host_stays_out(guarded: Guarded) -> None:
    guarded.change("add", "stranger", "--password-stdin")
    guarded.change("permit", "stranger", "--none")

    def refusal() -> str:
        try:
            guarded.as_user("stranger").connect()
        except AMQPError as refused:
            return str(refused)
        return "let in"

    eventually(lambda: "530" in refusal())  # the broker looks at the file once a second


def test_a_running_broker_sees_new_users_and_passwords(guarded: Guarded) -> None:
    guarded.change("add", "late", "--password-stdin")

    def logs_in() -> bool:
        client = guarded.as_user("late")
        try:
            client.connect()
        except AMQPError:
            return False
        client.close()
        return True

    eventually(logs_in)
    guarded.change("remove", "late")
    eventually(lambda: not logs_in())


# Guest


def own_address() -> str | None:
    """An IPv4 address of this machine that is not loopback."""
    for _, addresses in sorted(psutil.net_if_addrs().items()):
        for address in addresses:
            if address.family == socket.AF_INET and not address.address.startswith("127."):
                return str(address.address)
    return None


def guest_from(broker: Broker, host: str) -> bool:
    """Whether guest gets in when it dials `host`."""
    try:
        pika.BlockingConnection(pika.ConnectionParameters(host, broker.port, stack_timeout=10)).close()
    except AMQPError as refused:
        told = str(refused)
        assert "403" in told, told
        # The broker writes its log beside its answer, not before.
        eventually(lambda: "guest" in (told + broker.log_text()).lower())
        return False
    return True


def check_guest(folder: Path, address: str) -> None:
    with running_broker(folder / "default", host="0.0.0.0") as broker:
        assert guest_from(broker, "127.0.0.1")
        assert not guest_from(broker, address)
    with running_broker(folder / "open", "[auth]\nguest_from_loopback_only = false\n", host="0.0.0.0") as broker:
        assert guest_from(broker, address)


def test_guest_comes_from_loopback_only(tmp_path: Path) -> None:
    if (address := own_address()) is not None:
        check_guest(tmp_path, address)
        return
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("this machine has only loopback, and a network of our own needs root, unshare and ip")
    inside = textwrap.dedent(f"""
        import pathlib
        from tests.clients.test_access import check_guest
        check_guest(pathlib.Path({str(tmp_path)!r}), "198.51.100.7")
    """)
    network = "ip link set lo up && ip address add 198.51.100.7/32 dev lo && exec "
    command = ["unshare", "--net", "sh", "-c", network + '"$0" -c "$1"', sys.executable, inside]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_a_user_of_the_file_comes_from_anywhere(guarded: Guarded, tmp_path: Path) -> None:
    address = own_address()
    if address is None:
        pytest.skip("this machine has only loopback")
    config = f'[auth]\nusers_file = "{guarded.users}"\n'
    with running_broker(tmp_path, config, host="0.0.0.0") as broker:
        client = Client(Broker(address, broker.port, "admin", "secret"))
        assert temporary_queue(client.channel())
        client.close()
