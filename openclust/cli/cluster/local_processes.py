"""The processes of a local cluster: reads their logs line by line, notes their ends, and stops them."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import subprocess
from collections.abc import Callable

from openclust.cli.cluster.local_cluster import LocalBroker, LocalCluster
from openclust.shell.host.event_log import escape

STOP_WAIT_S = 10.0
DRAIN_WAIT_S = 1.0
LINE_BYTES_MAX = 65_536

Say = Callable[[str, str], None]
"""Called with the name of a broker, or "up" for the command itself, and a line without control characters."""


class LocalProcesses:
    """`start`, then `wait_until_all_ended` or `stop`. After `stop` no process is left."""

    def __init__(self, cluster: LocalCluster, say: Say) -> None:
        self.cluster = cluster
        self._say = say
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._followers: list[asyncio.Task[None]] = []
        self._stopping = False

    async def start(self) -> None:
        for broker in self.cluster.brokers:
            process = await asyncio.create_subprocess_exec(
                *self.cluster.command(broker),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self.cluster.environment(),
                process_group=0,  # Ctrl-C goes to `up` only, which ends the brokers in order
            )
            self._processes[broker.name] = process
            self._followers.append(asyncio.create_task(self._follow(broker, process)))

    def running(self) -> list[LocalBroker]:
        return [each for each in self.cluster.brokers if self._processes[each.name].returncode is None]

    async def wait_until_all_ended(self) -> None:
        await asyncio.gather(*(process.wait() for process in self._processes.values()))

    async def stop(self) -> None:
        """Sends SIGTERM to all processes, and SIGKILL to those that take too long."""
        self._stopping = True
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.wait_until_all_ended(), STOP_WAIT_S)
        except TimeoutError:
            names = ", ".join(each.name for each in self.running())
            self._say("up", f"{names} did not end within {STOP_WAIT_S:g} s of SIGTERM: killed")
            self.kill()
            await self.wait_until_all_ended()
        # The last lines are still in the pipes, which a child of a broker may hold open.
        _, late = await asyncio.wait(self._followers, timeout=DRAIN_WAIT_S)
        for task in late:
            task.cancel()

    def kill(self) -> None:
        self._stopping = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for each in self.running():
            with contextlib.suppress(ProcessLookupError):
                self._processes[each.name].send_signal(number)

    async def _follow(self, broker: LocalBroker, process: asyncio.subprocess.Process) -> None:
        """Reports every line of a broker's log, and then its end."""
        assert process.stdout is not None, "it was asked for"
        rest = b""
        while data := await process.stdout.read(LINE_BYTES_MAX):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._say(broker.name, escape(line.decode(errors="replace")))
        if rest:
            self._say(broker.name, escape(rest.decode(errors="replace")))
        code = await process.wait()
        if self._stopping:
            return
        self._say("up", f"{broker.name} {_ending(code)}; the others go on. To start it again:")
        self._say("up", f"  {shlex.join(self.cluster.command(broker))}")


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
