"""A process that plays some clients of a workload in real time: `python -m openclust.bench.live.player_process`.

It reads its plan on stdin, answers that it is ready, is told when to begin, and writes its results in the end.
"""

from __future__ import annotations

import gc
import heapq
import random
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import msgspec

from openclust.bench.client import frames
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.child import end_child
from openclust.bench.live.client import FRAME_MAX, STAMP, Address, ConnectionEnded, Player
from openclust.bench.live.live_plan import Begin, LiveMessage, LivePlan, Played
from openclust.bench.report.statistics import percentile

RETRY_MIN_MS, RETRY_MAX_MS = 100, 2_000
RETRIES_MS_MAX = 5_000
"""The longest pause between attempts to connect again, as in the simulation."""
PAUSE_MS_MAX = 200.0
DOZE_SECONDS = 0.005
EVENTS_MAX = 4_096
STOP_SECONDS = 30.0
SPARE_FILES = 64


class Play:
    """Plays one plan, once."""

    def __init__(self, plan: LivePlan) -> None:
        self._plan = plan
        seconds = plan.duration_ms // 1000 + 1
        self.found = Played(deliveries=[0] * seconds, consumed=[0] * seconds)
        self._players = {
            each.number: Player(each, self._take if each.kind == "consumers" else self._get) for each in plan.clients
        }
        self._by_fd: dict[int, Player] = {}
        self._epoll = select.epoll()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._names = {address: name for name, address in plan.brokers.items()}
        self._chance = random.Random(len(plan.clients))
        self._made = {
            (each.key, each.size, each.is_queued, each.is_persistent): _message(plan, each) for each in plan.messages
        }
        self._late_us: list[int] = []
        self._start_ns = self._turn = 0

    def run(self, start_ns: int) -> Played:
        self._start_ns = start_ns
        cpu_s = time.process_time()
        for player in self._players.values():
            self._at(start_ns + player.client.joins_ms * 1_000_000, lambda who=player: self._connect(who, who.broker))  # type: ignore[misc]
        end_ns = start_ns + self._plan.duration_ms * 1_000_000
        messages, following = self._plan.messages, 0
        while (now := time.perf_counter_ns()) < end_ns:
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()
            while following < len(messages) and start_ns + messages[following].at_us * 1000 <= now:
                self._publish(messages[following])
                following += 1
            due = [end_ns, *(timer[0] for timer in self._timers[:1])]
            if following < len(messages):
                due.append(start_ns + messages[following].at_us * 1000)
            if not self._plan.is_sampling:
                # This process wakes seldom, because each wake-up costs the broker that writes to it.
                time.sleep(DOZE_SECONDS)
            wait_ms = (min(due) - time.perf_counter_ns()) / 1e6
            for fd, event in self._epoll.poll(max(0.0, min(wait_ms, PAUSE_MS_MAX)) / 1000, EVENTS_MAX):
                self._serve(fd, event)
        found = self.found
        found.unsent += len(messages) - following
        found.cpu_s, found.is_sampling = time.process_time() - cpu_s, self._plan.is_sampling
        found.late_us = percentile(sorted(self._late_us), 99) if self._late_us else 0
        for player in self._players.values():
            if player.is_attached:
                found.attached += 1
                found.at_brokers[player.broker] = found.at_brokers.get(player.broker, 0) + 1
        return found

    def _at(self, at_ns: int, what: Callable[[], None]) -> None:
        self._turn += 1
        heapq.heappush(self._timers, (at_ns, self._turn, what))

    def _now_ms(self) -> int:
        return (time.perf_counter_ns() - self._start_ns) // 1_000_000

    def _connect(self, player: Player, broker: str, *, is_redirected: bool = False) -> None:
        player.broker = broker
        sock = player.connect(self._plan.brokers[broker], is_redirected=is_redirected)
        self._by_fd[sock.fileno()] = player
        self._epoll.register(sock, player.poll_events)

    def _serve(self, fd: int, event: int) -> None:
        player = self._by_fd[fd]
        try:
            if event & select.EPOLLOUT:
                player.flush()
            if event & ~select.EPOLLOUT and player.receive() and player.is_missing:
                player.is_missing = False
                self.found.back.append(self._now_ms())
            self._epoll.modify(fd, player.poll_events)
        except ConnectionEnded as ended:
            self._left(player, ended)

    def _left(self, player: Player, ended: ConnectionEnded) -> None:
        """The client connects again; at once if the broker redirected it."""
        assert player.sock is not None
        self._epoll.unregister(player.sock)
        del self._by_fd[player.sock.fileno()]
        was_attached = player.is_attached
        player.close()
        if ended.target is not None:
            self.found.redirected += 1
            self._connect(player, self._known(ended.target), is_redirected=True)
            return
        if ended.is_lost:
            if was_attached:
                player.is_missing = True
                self.found.lost.append(self._now_ms())
        elif ended.is_moved:
            self.found.moved += 1
        else:
            self.found.failed = ended.why
        low = min(RETRY_MIN_MS << player.tries, RETRIES_MS_MAX // 2)
        high = min(RETRY_MAX_MS << player.tries, RETRIES_MS_MAX)
        player.tries += 1
        others = sorted(name for name in self._plan.brokers if name != player.broker)
        broker = self._chance.choice(others or [player.broker])
        wait_ns = round(self._chance.uniform(low, high) * 1e6)
        self._at(time.perf_counter_ns() + wait_ns, lambda: self._connect(player, broker))

    def _known(self, address: Address) -> str:
        if address not in self._names:
            raise BenchError(f"a broker sends clients to {address[0]}:{address[1]}, which is none of the run's")
        return self._names[address]

    def _publish(self, message: LiveMessage) -> None:
        player = self._players[message.client]
        if not player.is_attached or player.sock is None:
            self.found.unsent += 1
            return
        before, after = self._made[message.key, message.size, message.is_queued, message.is_persistent]
        now = time.perf_counter_ns()
        self._late_us.append((now - self._start_ns) // 1000 - message.at_us)
        try:
            player.send(before + STAMP.pack(now) + after)
        except ConnectionEnded as ended:
            self._left(player, ended)
            self.found.unsent += 1
            return
        self._epoll.modify(player.sock.fileno(), player.poll_events)
        self.found.published += 1

    def _get(self, player: Player, stamp: int, tag: int, now: int) -> None:
        self.found.deliveries[self._second(now)] += 1
        if self._plan.is_sampling:
            self.found.latencies.append(((stamp - self._start_ns) // 1_000_000, (now - stamp) // 1000))

    def _take(self, player: Player, stamp: int, tag: int, read_ns: int) -> None:
        """A delivery to a consumer of a queue, which works on it and then sends the ack."""
        sock = player.sock
        done_ns = time.perf_counter_ns() + player.client.work_us * 1000

        def done() -> None:
            if player.sock is not sock or sock is None:
                return
            try:
                player.ack(tag)
            except ConnectionEnded as ended:
                self._left(player, ended)
                return
            now = time.perf_counter_ns()
            self.found.consumed[self._second(now)] += 1
            self.found.worked.append(((stamp - self._start_ns) // 1_000_000, (now - stamp) // 1000))

        self._at(done_ns, done)

    def _second(self, now_ns: int) -> int:
        return min(max(now_ns - self._start_ns, 0) // 1_000_000_000, len(self.found.deliveries) - 1)


def _message(plan: LivePlan, message: LiveMessage) -> tuple[bytes, bytes]:
    """The bytes before and after the time stamp, which is the beginning of the body."""
    exchange = "" if message.is_queued else plan.exchange
    size = max(message.size, STAMP.size)
    if size > FRAME_MAX - frames.FRAME_OVERHEAD:
        raise BenchError(f"a message of {size:,} bytes needs more than one frame: take at most {FRAME_MAX - 8:,}")
    whole = frames.publish(1, exchange, message.key, bytes(size), frame_max=FRAME_MAX, persistent=message.is_persistent)
    body_at = len(whole) - 1 - size
    return whole[:body_at], whole[body_at + STAMP.size :]


class PlayProcess:
    """A player process, as the command that starts it sees it. Close it in any case."""

    def __init__(self, plan: LivePlan) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "openclust.bench.live.player_process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._tell(plan)
        self.patience_s = plan.duration_ms / 1000

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        self._answer()

    def begin(self, start_ns: int) -> None:
        self._tell(Begin(start_ns=start_ns))

    def found(self) -> Played:
        """The results; waits for the end of the run."""
        return msgspec.json.decode(self._answer(), type=Played)

    def close(self) -> None:
        end_child(self._process, STOP_SECONDS, at_once=True)

    def _tell(self, what: LivePlan | Begin) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(what) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchError("a load generator is gone; its last words are above") from None

    def _answer(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError("a load generator died; its last words are above")
        return line


def main() -> None:
    """Play one plan."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=LivePlan)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < len(plan.clients) + SPARE_FILES:
        raise SystemExit(f"{len(plan.clients)} clients need more open files than {hard} (`ulimit -Hn`)")
    play = Play(plan)
    gc.collect()
    gc.disable()
    _say(b"ready")
    line = sys.stdin.buffer.readline()
    if line:
        _say(msgspec.json.encode(play.run(msgspec.json.decode(line, type=Begin).start_ns)))


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
