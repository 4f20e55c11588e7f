"""The network of a run: that of the partition tests, with bad lines."""

from __future__ import annotations

import subprocess
import sys

from tests.support.cluster.cut_network import CutNetwork
from tests.torture.child import end_child, start_child

PREFIX = "openclust-torture"
READY_WAIT_S = 10.0


class TortureNetwork(CutNetwork):
    """`heal` mends lines as well as cuts."""

    def __init__(self, hosts: list[str]) -> None:
        self._lines: dict[str, subprocess.Popen[str]] = {}
        super().__init__(hosts, PREFIX)

    def make_line_bad(self, host: str, loss: float, delay_ms: float, jitter_ms: float, seed: int) -> None:
        """All that this host sends and hears goes through a line that loses and delays."""
        if host in self._lines:
            return
        cable, plug = f"{host}-cable", f"{host}-plug"
        self._inside(
            self._hub,
            f"link add {cable} type veth peer name {plug}",
            f"link set {cable} up",
            f"link set {plug} up",
            f"link set {plug} master left",
        )
        line = start_child(
            [
                *("ip", "netns", "exec", self._hub, sys.executable, "-m", "tests.torture.line", host, cable),
                *("--loss", str(loss), "--delay-ms", str(delay_ms), "--jitter-ms", str(jitter_ms), "--seed", str(seed)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lines[host] = line
        assert line.stdout is not None
        if line.stdout.readline() != "ready\n":
            raise AssertionError(f"the bad line of {host} did not come up")
        # From here on its packets go nowhere but through the line.
        self._inside(self._hub, f"link set {host} nomaster")

    def heal(self) -> None:
        lines, self._lines = self._lines, {}
        super().heal()
        for host, line in lines.items():
            end_child(line)
            self._inside(self._hub, f"link delete {host}-cable")

    def close(self) -> None:
        for line in self._lines.values():
            end_child(line)
        self._lines = {}
        super().close()
