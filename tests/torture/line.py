"""A bad line between two interfaces, which loses and delays packets: `python -m tests.torture.line A B --loss 0.02`.

What `tc netem` does, for kernels without it. It says `ready` when packets pass, and ends when its input ends.
"""

from __future__ import annotations

import argparse
import heapq
import random
import select
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_VNET_HDR = 15
"""Packets come with what the kernel left to the hardware: checksums to be made, large ones to be cut."""
PACKET_IGNORE_OUTGOING = 23
PACKET_BYTES_MAX = 70_000
WAITING_MAX = 20_000


class Line:
    """Both directions. Nothing overtakes: a TCP takes that for a loss, and there are enough of these."""

    def __init__(self, names: tuple[str, str], loss: float, delay_s: float, jitter_s: float, seed: int) -> None:
        self._ends = [self._end(name) for name in names]
        self._loss = loss
        self._delay_s = delay_s
        self._jitter_s = jitter_s
        self._chance = random.Random(seed)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._last = [0.0, 0.0]
        self._number = 0

    def _end(self, name: str) -> socket.socket:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        end.bind((name, ETH_P_ALL))
        end.setblocking(False)
        return end

    def run(self) -> None:
        print("ready", flush=True)
        while True:
            wait_s = max(self._waiting[0][0] - time.monotonic(), 0.0) if self._waiting else None
            readable, _, _ = select.select([*self._ends, sys.stdin], [], [], wait_s)
            if sys.stdin in readable:
                return
            for side, end in enumerate(self._ends):
                if end in readable:
                    self._take(side, end)
            self._pass_on()

    def _take(self, side: int, end: socket.socket) -> None:
        for _ in range(256):
            try:
                packet = end.recv(PACKET_BYTES_MAX)
            except OSError:
                return
            if self._chance.random() < self._loss or len(self._waiting) >= WAITING_MAX:
                continue
            due = time.monotonic() + self._delay_s + self._chance.random() * self._jitter_s
            due = self._last[side] = max(due, self._last[side])
            self._number += 1
            heapq.heappush(self._waiting, (due, self._number, 1 - side, packet))

    def _pass_on(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, side, packet = heapq.heappop(self._waiting)
            try:
                self._ends[side].send(packet)
            except OSError:
                # The other end is down, or takes no more: lost, as on any line.
                continue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ends", nargs=2)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--jitter-ms", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    Line((args.ends[0], args.ends[1]), args.loss, args.delay_ms / 1_000, args.jitter_ms / 1_000, args.seed).run()


if __name__ == "__main__":
    main()
