"""A network of one's own for every primary, to be cut without a word: namespaces, and two switches in another one.

Nothing of it is ever in the namespace of the machine. A cut ends no connection: no RST, no FIN, and all cables stay
plugged in.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SUBNET = "10.77.0"
SWITCHES = ("left", "right")
NOBODY = "02:00:00:00:00:ff"
"""A hardware address that no interface has: what is sent to it is lost, and the sender does not learn of it."""
CLONE_NEWNET = 0x40000000


class CutNetwork:
    """`open` it, and `close` it whatever happened. All hosts begin at the left switch, each with its own loopback."""

    _number = itertools.count(1)

    def __init__(self, hosts: Iterable[str], prefix: str = "openclust") -> None:
        self.addresses = {host: f"{SUBNET}.{number}" for number, host in enumerate(hosts, 1)}
        self._prefix = f"{prefix}-{os.getpid()}-{next(self._number)}"
        self._hub = f"{self._prefix}-hub"

    def namespace(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def open(self) -> None:
        """After `check_tools`. pytest's skip where there can be no namespaces."""
        done = _ip("netns", "add", self._hub)
        if done.returncode != 0:
            pytest.skip(f"no network namespaces can be made here: {done.stderr.strip()}")
        for switch in SWITCHES:
            self._inside(self._hub, f"link add {switch} type bridge", f"link set {switch} up")
        for host, address in self.addresses.items():
            namespace = self.namespace(host)
            _must("netns", "add", namespace)
            self._inside(
                self._hub, f"link add {host} type veth peer name eth0 netns {namespace}", f"link set {host} up"
            )
            self._inside(namespace, "link set lo up", f"address add {address}/24 dev eth0", "link set eth0 up")
        self.heal()

    def close(self) -> None:
        for namespace in (*map(self.namespace, self.addresses), self._hub):
            _ip("netns", "delete", namespace)

    def cut_off(self, *hosts: str) -> None:
        """They hear nobody, and nobody hears them."""
        self._inside(self._hub, *(f"link set {host} nomaster" for host in hosts))

    def move(self, switch: str, *hosts: str) -> None:
        """They hear those at the same switch."""
        self._inside(self._hub, *(f"link set {host} master {switch}" for host in hosts))

    def silence(self, sender: str, *receivers: str) -> None:
        """What the one sends to the others is lost; what they send arrives."""
        where = (self.addresses[host] for host in receivers)
        self._inside(
            self.namespace(sender), *(f"neighbour replace {to} lladdr {NOBODY} nud permanent dev eth0" for to in where)
        )

    def heal(self) -> None:
        self.move("left", *self.addresses)
        for host in self.addresses:
            # The ones made by hand: those that were asked for are not to be asked for again.
            self._inside(self.namespace(host), "neighbour flush nud permanent dev eth0")

    def command(self, host: str, command: list[str]) -> list[str]:
        """What runs this command inside, in the same process."""
        return ["ip", "netns", "exec", self.namespace(host), *command]

    def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """A connection to the loopback inside. OSError where nobody listens.

        A socket stays in the namespace where it was made, and a thread may move: one that ends afterwards makes it.
        """
        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(_connect_inside, self.namespace(host), port, timeout_s).result()

    def _inside(self, namespace: str, *commands: str) -> None:
        _must("-n", namespace, "-batch", "-", text="".join(f"{command}\n" for command in commands))


def check_tools() -> None:
    """pytest's skip where something is missing; in CI, where it should be there, a failure."""
    missing = []
    if shutil.which("ip") is None:
        missing.append("iproute2")
    if os.geteuid() != 0:
        missing.append("root")
    if missing:
        reason = f"needs {' and '.join(missing)} to make network namespaces"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def _connect_inside(namespace: str, port: int, timeout_s: float) -> socket.socket:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/run/netns", namespace).open("rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise AssertionError(f"cannot enter {namespace}: {os.strerror(number)}")
    return socket.create_connection(("127.0.0.1", port), timeout_s)


def _ip(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], input=text, capture_output=True, text=True, timeout=10)


def _must(*arguments: str, text: str = "") -> None:
    done = _ip(*arguments, text=text)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {text}{done.stderr.strip()}"
