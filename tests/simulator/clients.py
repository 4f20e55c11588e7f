"""Clients that must not lose anything: they reconnect, publish again what was not confirmed, and acknowledge."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from openclust.wire.codec import method_frame
from openclust.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)
from openclust.wire.properties import Properties, decode_properties
from openclust.wire.table import Table
from tests.simulator.application import Application
from tests.simulator.invariants import Violation
from tests.simulator.promises import Giver, Heard, Letter, Promises, Unit, in_order
from tests.simulator.targets import ARGUMENTS, DEDUP, KEY, TARGETS, Target, declare, to_queue

if TYPE_CHECKING:
    from tests.simulator.host import Host
    from tests.simulator.nodes import Nodes

UNCONFIRMED_MAX = 4
LETTERS_MAX = 30
TRANSACTED_MAX = 150
KEYS = ("a", "b")
PERSISTENT = 2
IDLE_US = 10_000
"""Who has nothing to do looks less often."""


class Session(Application):
    """One connection of a client: it asks for all that it needs, and then it is ready."""

    def __init__(self, world: Nodes, host: Host, promises: Promises, needs: list[Method]) -> None:
        self.promises = promises
        self._needs = needs
        self._left = deque(needs)
        super().__init__(world, host)

    def act(self) -> None:
        if self.asked is not None or not self.is_open:
            return
        if self._left:
            self.ask(self._left.popleft())
        else:
            self.go_on()

    @property
    def is_ready(self) -> bool:
        return self.asked is None and not self._left

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do before something is heard."""
        return self.asked is not None

    def go_on(self) -> None:
        """All that it needs is there."""

    def answered(self, asked: Method, answer: Method) -> None:
        if isinstance(asked, ChannelOpen):
            self._left = deque(self._needs)

    @property
    def epoch(self) -> int:
        """Of the root that its broker has now; 0 where it has none."""
        reign = self.host.running.membership.reign if self.host.node is not None else None
        return reign.epoch if reign is not None else 0

    @property
    def giver(self) -> Giver:
        """Who gives what comes out of a shared queue now."""
        membership = self.host.running.membership
        return self.epoch, self.host.heard.get(membership.root, 0)

    @property
    def reign(self) -> int:
        """The epoch in which its broker is root itself; 0 where it is not, and passes on what is published."""
        return self.epoch if self.host.node is not None and self.host.node.membership.is_root else 0

    def post(self, letter: Letter, *, mandatory: bool = False) -> None:
        target = letter.target
        headers: Table = {KEY: letter.key, "id": letter.id}
        properties = Properties(
            headers=headers, delivery_mode=PERSISTENT, priority=letter.priority, message_id=letter.id
        )
        self.publish(target.exchange, target.routing_key, mandatory=mandatory, properties=properties)

    def hear_letter(self, queue: str) -> Letter:
        """The message that has just come out of a queue."""
        letter_id = decode_properties(self.header).message_id or ""
        if self.world.tell is not None:
            self.world.note(self.host.name, f"gives {letter_id} of {queue}")
        return self.promises.delivered(queue, letter_id, self.epoch, self.world.now_us)


class _Publishing(Session):
    """Publishes with confirms. What `waits` when it is lost must be published again."""

    def __init__(self, world: Nodes, host: Host, producer: Producer) -> None:
        self._producer = producer
        self.number = 0
        self.waits: dict[int, Letter] = {}
        self._session = producer.promises.session()
        super().__init__(world, host, producer.promises, [*producer.target.declares(), ConfirmSelect()])

    @property
    def is_idle(self) -> bool:
        return self.asked is not None or len(self.waits) >= UNCONFIRMED_MAX or not self._producer.has_more

    def go_on(self) -> None:
        for _ in range(self.chance.choice((1, 1, 3))):
            letter = self._producer.next() if len(self.waits) < UNCONFIRMED_MAX else None
            if letter is None:
                return
            self.number += 1
            self.waits[self.number] = letter
            self.promises.published(letter, self._session, self.reign)
            self.post(letter, mandatory=self.chance.random() < 0.3)

    def confirmed(self, method: BasicAck | BasicNack) -> None:
        if not self.is_open:
            return
        upto = method.delivery_tag
        tags = [each for each in self.waits if each <= upto] if method.multiple else [upto]
        for tag in tags:
            letter = self.waits.pop(tag, None)
            if letter is None:
                raise Violation(f"{self.host.name} confirms what does not wait: {method}")
            if self.world.tell is not None:
                verdict = "confirms" if isinstance(method, BasicAck) else "refuses"
                self.world.note(self.host.name, f"{verdict} {letter.id}")
            if isinstance(method, BasicAck):
                self.promises.confirmed(letter, self.reign, self.world.now_us)
            else:
                self._producer.pending.append(letter)

    def take_waiting(self) -> list[Letter]:
        letters = list(self.waits.values())
        self.waits.clear()
        self.number = 0
        return letters

    def refused(self, close: ChannelClose) -> None:
        self._producer.again(self.take_waiting())
        self._session = self.promises.session()
        super().refused(close)

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        if not self.promises.may_lose:
            raise Violation(f"{self.host.name} gives a message back, though there is a queue for it: {method}")


class _Consuming(Session):
    """Takes from one queue, and acknowledges later."""

    def __init__(self, world: Nodes, host: Host, promises: Promises, queue: str, needs: list[Method]) -> None:
        self.queue = queue
        self.unacked: dict[int, Letter] = {}
        self._heard = promises.hearing(queue) if in_order(queue) else None
        prefetch = BasicQos(prefetch_count=world.chance.choice((1, 2, 8)))
        super().__init__(world, host, promises, [declare(queue), prefetch, *needs, BasicConsume(queue=queue)])

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        if not self.is_open:
            return
        assert isinstance(method, BasicDeliver), method
        letter = self.hear_letter(self.queue)
        self.unacked[method.delivery_tag] = letter
        if self._heard is not None and not method.redelivered:
            self._heard.append(Heard(letter, self.giver))

    def refused(self, close: ChannelClose) -> None:
        self._new_channel()
        super().refused(close)

    def _new_channel(self) -> None:
        self.unacked.clear()
        self._heard = self.promises.hearing(self.queue) if in_order(self.queue) else None

    def cancelled(self) -> None:
        if not self.promises.may_lose:
            raise Violation(f"{self.host.name} cancels a consumer of {self.queue}, which is there")
        self.close()


class Receiving(_Consuming):
    """Acknowledges, or gives back, one or many. An `eager` one does nothing but acknowledge at once."""

    def __init__(self, world: Nodes, host: Host, promises: Promises, queue: str, *, eager: bool = False) -> None:
        self._eager = eager
        super().__init__(world, host, promises, queue, [])

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        super().delivered(method, body)
        if self._eager and self.is_open:
            self._settle([method.delivery_tag], BasicAck(delivery_tag=method.delivery_tag))  # type: ignore[union-attr]

    @property
    def is_idle(self) -> bool:
        return self.asked is not None or (not self._left and not self.unacked)

    def go_on(self) -> None:
        if not self.unacked or self.chance.random() < 0.3:
            return
        tags = list(self.unacked)
        tag = self.chance.choice(tags)
        multiple = self.chance.random() < 0.5
        chosen = [each for each in tags if each <= tag] if multiple else [tag]
        if self.chance.random() < 0.15:
            for each in chosen:
                del self.unacked[each]
            self.say(method_frame(1, BasicNack(delivery_tag=tag, multiple=multiple, requeue=True)))
        else:
            self._settle(chosen, BasicAck(delivery_tag=tag, multiple=multiple))

    def _settle(self, tags: list[int], ack: BasicAck) -> None:
        for each in tags:
            self.unacked.pop(each).settled.add(self.queue)
        self.say(method_frame(1, ack))


class _Transacting(_Consuming):
    """Takes messages and publishes others in their place, all or nothing."""

    def __init__(self, world: Nodes, host: Host, promises: Promises, queue: str, target: Target) -> None:
        self._target = target
        self._unit = Unit()
        self._session = promises.session()
        self._ends: Method | None = None
        super().__init__(world, host, promises, queue, [*target.declares(), TxSelect()])

    def go_on(self) -> None:
        chance, unit = self.chance, self._unit
        if not unit.letters and not unit.acks:
            self._begin(unit)
        elif chance.random() < 0.2:
            for letter in unit.letters:
                letter.is_withdrawn = True
            self.ask(TxRollback())
        else:
            self._ends = TxCommit()
            self.ask(self._ends)

    def _begin(self, unit: Unit) -> None:
        chance = self.chance
        if len(self.promises.letters) < TRANSACTED_MAX:
            for _ in range(chance.choice((0, 1, 2))):
                letter = self.promises.new(self._target, chance.choice(KEYS), 0, self.world.now_us)
                self.promises.published(letter, self._session, self.reign)
                self.post(letter)
                unit.letters.append(letter)
        for tag in list(self.unacked)[: chance.choice((1, 2))]:
            unit.acks.append((self.queue, self.unacked.pop(tag)))
            self.say(method_frame(1, BasicAck(delivery_tag=tag)))

    def answered(self, asked: Method, answer: Method) -> None:
        super().answered(asked, answer)
        if isinstance(answer, TxCommitOk):
            unit, self._unit = self._unit, Unit()
            self._ends = None
            for letter in unit.letters:
                self.promises.confirmed(letter, self.reign, self.world.now_us)
            for queue, letter in unit.acks:
                letter.settled.add(queue)
                letter.gone[queue] = self.epoch
        elif isinstance(asked, TxRollback):
            # Its deliveries come again when the channel is closed.
            self._unit = Unit()
            self.close()

    def end_unit(self) -> None:
        """It is not known what became of the last one, unless that was never to be."""
        unit, self._unit = self._unit, Unit()
        if self._ends is not None:
            self.promises.unknown.append(unit)
        else:
            for letter in unit.letters:
                letter.is_withdrawn = True
        self._ends = None

    def refused(self, close: ChannelClose) -> None:
        self.end_unit()
        super().refused(close)


class Client:
    """Has a connection to some broker, and where it is lost another one."""

    def __init__(self, world: Nodes, promises: Promises) -> None:
        self.world = world
        self.promises = promises
        self.session: Session | None = None
        self._is_over = False
        self._pause_us = world.chance.choice((1_000, 5_000, 20_000))
        self._again()

    def _again(self) -> None:
        pause_us = self._pause_us
        if self.session is not None and self.session.is_idle:
            pause_us = max(pause_us, IDLE_US)
        self.world.after(200, 2 * pause_us, self._act)

    def _act(self) -> None:
        if self._is_over:
            return
        chance = self.world.chance
        if self.session is not None and self.session.is_lost:
            self.lost(self.session)
            self.session = None
        if self.session is None:
            hosts = [host for host in self.world.brokers.values() if host.is_up]
            if hosts:
                self.session = self.connect(chance.choice(hosts))
        elif chance.random() < 0.01:
            self.session.close()
        else:
            self.session.act()
        self._again()

    def connect(self, host: Host) -> Session:
        raise NotImplementedError

    def lost(self, session: Session) -> None:
        """What it had under way is in doubt."""

    def end(self) -> None:
        self._is_over = True
        if self.session is not None:
            self.lost(self.session)
            if not self.session.is_lost:
                self.session.close()
            self.session = None


class Producer(Client):
    """`pending` are the letters that must be published again."""

    def __init__(self, world: Nodes, promises: Promises) -> None:
        self.pending: deque[Letter] = deque()
        self.target = world.chance.choice(TARGETS)
        self.is_done = False
        self._left = LETTERS_MAX
        super().__init__(world, promises)

    @property
    def has_more(self) -> bool:
        return bool(self.pending) or (not self.is_done and self._left > 0)

    def next(self) -> Letter | None:
        if self.pending:
            return self.pending.popleft()
        if not self.has_more:
            return None
        self._left -= 1
        chance = self.world.chance
        return self.promises.new(self.target, chance.choice(KEYS), chance.randrange(3), self.world.now_us)

    def again(self, letters: list[Letter]) -> None:
        self.pending.extendleft(reversed(letters))

    def connect(self, host: Host) -> Session:
        return _Publishing(self.world, host, self)

    def lost(self, session: Session) -> None:
        assert isinstance(session, _Publishing), session
        self.again(session.take_waiting())

    @property
    def waits(self) -> bool:
        """Whether something is not confirmed."""
        session = self.session
        return bool(self.pending) or (isinstance(session, _Publishing) and bool(session.waits))


class Receiver(Client):
    def connect(self, host: Host) -> Session:
        return Receiving(self.world, host, self.promises, self.world.chance.choice(tuple(ARGUMENTS)))


class Transactor(Client):
    def connect(self, host: Host) -> Session:
        chance = self.world.chance
        target = chance.choice(TARGETS)
        return _Transacting(self.world, host, self.promises, chance.choice(("d.one", "d.two", "d.priority")), target)

    def lost(self, session: Session) -> None:
        assert isinstance(session, _Transacting), session
        session.end_unit()


class Clients:
    """A few of each kind."""

    def __init__(self, world: Nodes) -> None:
        self.promises = Promises(lambda: world.has_forgotten)
        self._world = world
        self._producers = [Producer(world, self.promises) for _ in range(world.chance.randint(1, 4))]
        others: list[Callable[[Nodes, Promises], Client]] = [Receiver, Receiver, Receiver, Transactor]
        chosen = [kind for kind in others if world.chance.random() < 0.7]
        self._others = [kind(world, self.promises) for kind in chosen]

    def finish(self, within_us: int) -> None:
        """All that was begun to be published is confirmed, and nobody consumes any more."""
        world = self._world
        for producer in self._producers:
            producer.is_done = True
        for client in self._others:
            client.end()
        if not world.wait(lambda: not any(each.waits for each in self._producers), within_us):
            raise Violation(f"publishers waited in vain for confirms, {within_us // 1_000} ms")
        for producer in self._producers:
            producer.end()


def drain(world: Nodes, promises: Promises, within_us: int) -> None:
    """Take out all that is left, and look whether every promise was kept; then nothing of it may come again."""
    promises.drained_us = world.now_us
    hosts = list(world.brokers.values())
    sessions = [Receiving(world, world.chance.choice(hosts), promises, queue, eager=True) for queue in ARGUMENTS]
    _drive(world, sessions, within_us)
    promises.look()
    if not promises.may_lose:
        _repeat(world, promises, within_us)
    for session in sessions:
        session.close()


def _drive(world: Nodes, sessions: list[Receiving], within_us: int) -> None:
    end_us = world.now_us + within_us
    root = world.brokers[world.root()]

    def is_empty() -> bool:
        queues = root.running.broker.vhosts["/"].queues
        return not any(name in ARGUMENTS and (len(queue) or queue.unacked) for name, queue in queues.items())

    while not (all(session.is_ready for session in sessions) and is_empty()):
        if world.now_us > end_us:
            left = {name: (len(queue), queue.unacked) for name, queue in root.running.broker.vhosts["/"].queues.items()}
            raise Violation(f"queues are not empty after {within_us // 1_000} ms with consumers: {left}")
        for session in sessions:
            session.act()
        world.run(until_us=world.now_us + 10_000)


def _repeat(world: Nodes, promises: Promises, within_us: int) -> None:
    """A queue that drops repeated messages knows all that it ever confirmed."""
    known = [each for each in promises.letters.values() if each.is_confirmed and DEDUP in each.target.queues]
    if not known:
        return
    producer = Producer(world, promises)
    producer.target = to_queue(DEDUP)
    producer.is_done = True
    producer.pending.extend(known)
    before = {each.id: each.delivered.get(DEDUP) for each in known}
    if not world.wait(lambda: not producer.waits, within_us):
        raise Violation(f"a publisher waited in vain for confirms, {within_us // 1_000} ms")
    world.run(until_us=world.now_us + 30_000)
    producer.end()
    again = [each.id for each in known if each.delivered.get(DEDUP) != before[each.id]]
    if again:
        raise Violation(f"messages {again} came out of {DEDUP} again, when they were published again after all")
