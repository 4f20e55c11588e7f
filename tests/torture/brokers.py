"""The brokers of a run: each a process in a network namespace, the primaries with a small disk each."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from openclust.cli.cluster.local_cluster import LocalBroker, LocalCluster
from tests.torture.child import end_children, start_child
from tests.torture.disk import SmallDisk
from tests.torture.network import TortureNetwork

PRIMARIES = ("p1", "p2", "p3")
SECONDARIES = ("s1", "s2")
CLIENTS = "clients"
CLIENT_PORT, PEER_PORT, HTTP_PORT = 5672, 5682, 15672
ASK_WAIT_S = 1.0
LOGIN = "Basic Z3Vlc3Q6Z3Vlc3Q="


class ApartCluster(LocalCluster, frozen=True, kw_only=True):
    """A cluster file for primaries at addresses of their own, with the HTTP API on the loopback of each."""

    network: TortureNetwork

    def configuration(self) -> str:
        secret = f'[cluster]\nsecret_file = "{self.folder / "secret"}"\n'
        parts = [secret, "[auth]\nguest_from_loopback_only = false\n"]
        for each in self.primaries:
            address = self.network.addresses[each.name]
            parts.append(
                f"[cluster.primaries.{each.name}]\n"
                f'client = "{address}:{each.client_port}"\n'
                f'peer = "{address}:{each.peer_port}"\n'
                f'http = "127.0.0.1:{each.http_port}"\n'
            )
        return "\n".join(parts)

    def command(self, broker: LocalBroker) -> list[str]:
        if broker in self.primaries:
            return self.network.command(broker.name, super().command(broker))
        address = self.network.addresses[broker.name]
        meeting = ",".join(f"{self.network.addresses[each.name]}:{each.peer_port}" for each in self.primaries)
        command = super().command(broker)
        start = command[: command.index("--join")]
        given = [
            *("--join", meeting, "--host", address, "--port", str(broker.client_port)),
            *("--http-port", str(broker.http_port), "--log-level", self.log_level),
            *("--set", f"cluster.peer_listen={address}:{broker.peer_port}"),
            *("--set", f"cluster.secret_file={self.folder / 'secret'}"),
            *("--set", f"cluster.data_dir={self.folder / broker.name}"),
            *("--set", "auth.guest_from_loopback_only=false"),
        ]
        return self.network.command(broker.name, [*start, *given])


class Broker:
    """One broker. It is asked from inside its namespace, so that no cut keeps it from answering."""

    def __init__(self, cluster: ApartCluster, place: LocalBroker, disk: SmallDisk | None) -> None:
        self.name = place.name
        self.disk = disk
        self.is_stopped = False
        self.is_meant_to_run = False
        self.log = cluster.folder / f"{place.name}.log"
        self._cluster = cluster
        self._place = place
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process else None

    def start(self) -> None:
        if self.is_running:
            return
        self.is_meant_to_run = True
        self.is_stopped = False
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"--- started at {time.monotonic():.3f}\n")
            log.flush()
            command, environment = self._cluster.command(self._place), self._cluster.environment()
            self._process = start_child(command, stdout=log, stderr=log, environment=environment)

    def kill(self) -> None:
        """SIGKILL, and wait until it is no more."""
        self.is_meant_to_run = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_stopped = True

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_stopped = False

    def take_process(self) -> subprocess.Popen[str] | None:
        """To be ended."""
        self.is_meant_to_run = False
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def ask(self) -> dict[str, Any] | None:
        """How it sees the cluster; None where it does not answer."""
        return self._call("GET", "/api/cluster") if self.is_running and not self.is_stopped else None

    def step_down(self) -> bool:
        """As `openclust step-down` asks for it."""
        return self._call("POST", "/api/cluster/step-down", b'{"reason": "torture"}') is not None

    def _call(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any] | None:
        asking = http.client.HTTPConnection("127.0.0.1", self._place.http_port, timeout=ASK_WAIT_S)
        asking.auto_open = 0
        try:
            asking.sock = self._cluster.network.connect(self.name, self._place.http_port, ASK_WAIT_S)
            asking.request(method, path, body, {"Authorization": LOGIN})
            answer = asking.getresponse()
            document: dict[str, Any] = json.loads(answer.read())
            return document if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            asking.close()


class Brokers:
    """All of them: `open`, and `close` whatever happened. The folder is there."""

    def __init__(self, folder: Path, disk_source: str) -> None:
        self.folder = folder
        self.network = TortureNetwork([*PRIMARIES, *SECONDARIES, CLIENTS])
        places = {
            name: LocalBroker(name, CLIENT_PORT, PEER_PORT, HTTP_PORT + number)
            for number, name in enumerate(PRIMARIES + SECONDARIES)
        }
        self._cluster = ApartCluster(
            cluster_key="torture",
            folder=folder,
            primaries=tuple(places[name] for name in PRIMARIES),
            secondaries=tuple(places[name] for name in SECONDARIES),
            network=self.network,
        )
        self.disks = {name: SmallDisk(folder / name, disk_source) for name in PRIMARIES}
        self.by_name = {name: Broker(self._cluster, place, self.disks.get(name)) for name, place in places.items()}

    @property
    def urls(self) -> list[str]:
        return [
            f"amqp://guest:guest@{self.network.addresses[name]}:{CLIENT_PORT}/?heartbeat=2" for name in self.by_name
        ]

    def open(self) -> None:
        self.network.open()
        for disk in self.disks.values():
            disk.mount()
        for name in SECONDARIES:
            (self.folder / name).mkdir(exist_ok=True)
        self._cluster.write()
        (self.folder / "secret").write_text("only for this run", encoding="utf-8")
        for broker in self.by_name.values():
            broker.start()

    def close(self, keep_data: bool) -> list[str]:
        """The names of the brokers that SIGTERM did not end."""
        processes = {name: broker.take_process() for name, broker in self.by_name.items()}
        stubborn = end_children([process for process in processes.values() if process is not None])
        for disk in self.disks.values():
            if keep_data:
                with contextlib.suppress(OSError):
                    disk.copy(self.folder / f"{disk.folder.name}.data")
            disk.unmount()
        self.network.close()
        return [name for name, process in processes.items() if process in stubborn]

    def root(self) -> str:
        """Who says of itself that it is root; empty where nobody does."""
        for name in PRIMARIES:
            seen = self.by_name[name].ask()
            if seen and seen["role"] == "root":
                return name
        return ""

    def heal(self) -> None:
        """Everything that a fault may have done."""
        self.network.heal()
        for disk in self.disks.values():
            disk.empty()
        for broker in self.by_name.values():
            broker.go_on()
            broker.start()

    def is_whole(self) -> bool:
        """All run, follow one root, and hear each other."""
        seen = [broker.ask() for broker in self.by_name.values()]
        return (
            all(one is not None and sum(each["online"] for each in one["brokers"]) == len(seen) for one in seen)
            and len({one["root"] for one in seen if one}) == 1
            and sum(one["role"] == "root" for one in seen if one) == 1
        )
