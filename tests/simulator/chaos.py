"""What goes wrong in a run, and when."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulator.broker import QUICK_DISK_US, Broker
from tests.simulator.network import QUICK_US, Pair
from tests.simulator.world import World, ring

CLUMSY_US = (10_000, 600_000)


class Chaos:
    """Strikes again and again until `end`; how often, and what with, differs from run to run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        self._is_over = False
        self._pause_us = self._chance.choice((50_000, 200_000, 600_000))
        kinds: list[tuple[int, Callable[[], None]]] = [
            (4, self._crash),
            (6, self._cut),
            (5, self._mend),
            (3, self._end_link),
            (3, self._desert),
            (3, self._stall),
            (2, self._slow_disk),
            (2, self._ill_disk),
            (1, self._black_out),
            (2, self._step_down),
            (2, self._stop),
            (3, self._slow_link),
            (1, self._jump),
        ]
        # Not everything in every run: some failures hide others.
        self._kinds = [kind for weight, kind in kinds if self._chance.random() < 0.7 for _ in range(weight)]
        self._kinds.append(self._mend)
        world.on_turn = self._turn
        world.on_crash = self._crashed

    def begin(self) -> None:
        """Start the brokers, not all at once, and begin."""
        late = self._chance.choice((1_000, 300_000, 8_000_000))
        for name in self._world.names:
            self._world.after(0, late, lambda name=name: self._start(name))  # type: ignore[misc]
        self._again()

    def end(self) -> None:
        """All is well from now on: everybody is up and in reach, nobody stalls. What was under way goes its way."""
        world = self._world
        self._is_over = True
        world.is_calm = True
        world.note("all", "is well from now on")
        for pair, link in world.network.links.items():
            link.delay_us = QUICK_US
            world.network.mend(pair, world.now_us)
        for name, broker in world.brokers.items():
            broker.write_us = broker.sync_us = QUICK_DISK_US
            broker.fails_until_us = 0
            broker.crashes_at_vote = ""
            if broker.stalled_until_us > world.now_us:
                broker.stalled_until_us = world.now_us
                world.stall(name, 0)
            world.start(name)
        world.reconnect()

    def _again(self) -> None:
        self._world.after(1_000, 2 * self._pause_us, self._strike)

    def _strike(self) -> None:
        if not self._is_over:
            self._chance.choice(self._kinds)()
            self._again()

    def _turn(self, broker: Broker) -> None:
        """A vote is on disk, or a root begins: sometimes that is the moment."""
        if self._is_over or self._chance.random() < 0.9:
            return
        name = broker.name
        strike = self._chance.choice((self._crash, self._cut, self._desert, self._stall, self._step_down))
        self._world.after(0, 3_000, lambda: None if self._is_over else strike(name))

    def _start(self, name: str) -> None:
        self._world.start(name)

    def _any(self) -> str:
        """A broker; the root more often than others."""
        serving = self._world.serving()
        return serving if serving and self._chance.random() < 0.5 else self._chance.choice(self._world.names)

    def _crash(self, name: str = "") -> None:
        name = name or self._any()
        broker = self._world.brokers[name]
        if not name or not broker.is_up:
            self._world.start(name)
            return
        kind = self._chance.random()
        if kind < 0.3:
            broker.crashes_at_vote = "before it is on disk" if kind < 0.15 else "when it is on disk"
            return
        self._world.crash(name)

    def slow_disks(self) -> None:
        """All at the same time."""
        for broker in self._world.brokers.values():
            broker.sync_us = (20_000, 300_000)

    def black_out(self, *, share: float = 1.0) -> None:
        """No current: all are gone at once."""
        for name in self._world.names:
            if self._chance.random() < share:
                self._world.crash(name)

    def _black_out(self) -> None:
        self.black_out(share=0.9)

    def _stop(self) -> None:
        name = self._any()
        if self._world.brokers[name].is_up:
            self._world.stop(name)

    def _crashed(self, broker: Broker) -> None:
        """It is started again, in a while, and not always with the same idea of the time of day."""
        if self._is_over:
            return
        if self._chance.random() < 0.5:
            broker.clock.jump(self._chance)
        self._world.after(100, self._chance.choice((5_000, 300_000, 3_000_000)), lambda: self._start(broker.name))

    def _cut(self, name: str = "") -> None:
        names = self._world.names
        if len(names) < 2:
            return
        kind = self._chance.randrange(5)
        name = name or self._any()
        others = [each for each in names if each != name]
        some = set(self._chance.sample(names, len(names) // 2))
        pairs: list[Pair]
        if kind == 0:
            pairs = [(name, self._chance.choice(others))]
        elif kind == 1:
            other = self._chance.choice(others)
            pairs = [(name, other), (other, name)]
        elif kind == 2:
            pairs = ring(names)
        elif kind == 3:
            pairs = [pair for pair in self._world.network.links if (pair[0] in some) != (pair[1] in some)]
        else:
            ways = self._chance.randrange(3)
            pairs = [(name, each) for each in others if ways != 1] + [(each, name) for each in others if ways != 2]
        pairs = [pair for pair in pairs if pair in self._world.network.links]
        self._world.note("all", f"cut: {' '.join('>'.join(pair) for pair in pairs)}")
        for pair in pairs:
            self._world.network.cut(pair)

    def _mend(self) -> None:
        is_some = self._chance.random() < 0.3
        self._world.note("all", "some is mended" if is_some else "all is mended")
        for pair in self._world.network.links:
            if not is_some or self._chance.random() < 0.5:
                self._world.network.mend(pair, self._world.now_us)

    def _end_link(self) -> None:
        if len(self._world.names) < 2:
            return
        world = self._world
        pair = self._chance.choice(list(world.network.links))
        seen_by = self._chance.choice(("sender", "receiver", "both"))
        world.note("all", f"link {'>'.join(pair)} ends for {seen_by}")
        if seen_by != "sender":
            world.network.end(pair, world.now_us, in_order=self._chance.random() < 0.5)
        if seen_by == "receiver":
            self._dial_later(pair)
        else:
            world.after(0, 5_000, lambda: world.lost(pair, world.now_us))

    def _desert(self, name: str = "") -> None:
        """All others see its links end; it does not know, and is still root, for a while. Sometimes it hears them."""
        world = self._world
        name = name or self._any()
        hears = self._chance.random() < 0.3
        world.note("all", f"loses its links from {name}")
        for pair in world.network.links:
            if pair[0] == name:
                world.network.cut(pair)
                world.network.end(pair, world.now_us, in_order=False)
                self._dial_later(pair)
            elif pair[1] == name and not hears:
                world.network.cut(pair)

    def _dial_later(self, pair: Pair) -> None:
        """Who writes to a closed connection learns it, some time. One that is still being dialled was not closed."""
        world = self._world
        link = world.network.links[pair]
        if not link.is_connected:
            return
        number = link.connection

        def learn() -> None:
            if link.connection == number:
                world.lost(pair, world.now_us)

        world.after(100_000, 1_000_000, learn)

    def _stall(self, name: str = "") -> None:
        most_us = self._chance.choice((150_000, 500_000, 3_000_000))
        self._world.stall(name or self._any(), self._chance.randint(1_000, most_us))

    def _slow_disk(self) -> None:
        broker = self._world.brokers[self._any()]
        most_us = self._chance.choice((5_000, 100_000, 1_000_000))
        if self._chance.random() < 0.5:
            broker.write_us = (10, most_us)
        else:
            broker.sync_us = (10, most_us // 2)

    def _ill_disk(self) -> None:
        """Nothing can be written for a while."""
        broker = self._world.brokers[self._any()]
        broker.fails_until_us = self._world.now_us + self._chance.randint(1_000, 500_000)

    def _step_down(self, name: str = "") -> None:
        self._world.step_down(name or self._any())

    def _slow_link(self) -> None:
        links = list(self._world.network.links.values())
        if links:
            link = self._chance.choice(links)
            link.delay_us = self._chance.choice((QUICK_US, (1_000, 50_000), CLUMSY_US))

    def _jump(self) -> None:
        self._world.brokers[self._any()].clock.jump(self._chance)
