"""What applications do in a run: they declare and delete, subscribe, publish, consume and get."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openclust.broker.model.access import Permission, User
from openclust.broker.model.changes import (
    Bind,
    Change,
    DeclareQueue,
    DeletePermission,
    DeletePolicy,
    DeleteUser,
    DeleteVhost,
    PutPermission,
    PutPolicy,
    PutUser,
    PutVhost,
)
from openclust.broker.model.policy import Policy
from openclust.wire.codec import method_frame
from openclust.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from tests.simulator.application import Application
from tests.simulator.invariants import Violation

if TYPE_CHECKING:
    from tests.simulator.host import Host
    from tests.simulator.nodes import Nodes

QUEUES: dict[str, dict[str, Any]] = {
    "q1": {},
    "q2": {},
    "q3": {"auto_delete": True},
    "q4": {
        "durable": True,
        "arguments": {"x-max-length": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"},
    },
    "q5": {"arguments": {"x-expires": 400}},
    "q6": {"arguments": {"x-message-ttl": 300, "x-single-active-consumer": True}},
}
EXCHANGES: dict[str, dict[str, Any]] = {
    "e1": {"type": "fanout"},
    "e2": {"type": "topic", "arguments": {"alternate-exchange": "e1"}},
    "e3": {"type": "direct", "auto_delete": True},
    "e4": {"type": "headers", "durable": True},
}
BUILT_IN = ("amq.fanout", "amq.topic", "amq.direct")
KEYS = ("a.b", "a.c", "b")
PATTERNS = (*KEYS, "a.*", "#")
UNCONFIRMED_MAX = 4


class Definer(Application):
    """Declares, binds and deletes what all share, and looks at it."""

    def act(self) -> None:
        if self.asked is None and self.is_open:
            self.ask(self._question())

    def _question(self) -> Method:
        chance = self.chance
        queue, exchange = chance.choice(tuple(QUEUES)), chance.choice(tuple(EXCHANGES))
        source, key = chance.choice((*EXCHANGES, *BUILT_IN)), chance.choice(PATTERNS)
        kind = chance.randrange(17)
        if kind < 4:
            if chance.random() < 0.1:
                # Somebody takes the name for a private one, or for one of another kind.
                return QueueDeclare(queue=queue, exclusive=chance.random() < 0.5, arguments={"x-max-length": 9})
            return QueueDeclare(queue=queue, **QUEUES[queue])
        if kind < 6:
            return ExchangeDeclare(exchange=exchange, **EXCHANGES[exchange])
        if kind < 8:
            return QueueBind(queue=queue, exchange=source, routing_key=key)
        others: tuple[Method, ...] = (
            QueueDelete(queue=queue, if_unused=chance.random() < 0.3, if_empty=chance.random() < 0.3),
            ExchangeDelete(exchange=exchange, if_unused=chance.random() < 0.3),
            QueueUnbind(queue=queue, exchange=source, routing_key=key),
            ExchangeBind(destination=exchange, source=source, routing_key=key),
            ExchangeUnbind(destination=exchange, source=source, routing_key=key),
            QueueDeclare(queue=queue, passive=True),
            QueuePurge(queue=queue),
            BasicGet(queue=queue, no_ack=True),
            BasicGet(queue=queue),
        )
        return others[kind - 8]

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        if isinstance(method, BasicGetOk) and self.chance.random() < 0.8:
            # Now and then one stays without an ack until the channel closes; or the ack is for a no-ack get: 406.
            self.say(method_frame(1, BasicAck(delivery_tag=method.delivery_tag)))


class Subscriber(Application):
    """Has a private queue, and binds and unbinds it."""

    def __init__(self, world: Nodes, host: Host) -> None:
        self.queue = ""
        self.is_consuming = False
        self.bound: set[tuple[str, str]] = set()
        self.number = world.ledger.new_queue()
        super().__init__(world, host)

    def act(self) -> None:
        if self.asked is not None or not self.is_open:
            return
        chance = self.chance
        exchange, key = chance.choice((*EXCHANGES, *BUILT_IN)), chance.choice(PATTERNS)
        if not self.queue:
            self.ask(QueueDeclare(exclusive=True))
        elif not self.is_consuming:
            self.ask(BasicConsume(queue=self.queue, no_ack=True))
        elif self.bound and chance.random() < 0.4:
            exchange, key = chance.choice(sorted(self.bound))
            self.ask(QueueUnbind(queue=self.queue, exchange=exchange, routing_key=key))
        elif chance.random() < 0.03:
            self.ask(QueueDelete(queue=self.queue))
        else:
            self.ask(QueueBind(queue=self.queue, exchange=exchange, routing_key=key))

    def answered(self, asked: Method, answer: Method) -> None:
        match asked:
            case QueueDeclare():
                assert isinstance(answer, QueueDeclareOk), answer
                self.queue = answer.queue
            case BasicConsume():
                self.is_consuming = True
            case QueueBind():
                self.bound.add((asked.exchange, asked.routing_key))
            case QueueUnbind():
                self.bound.discard((asked.exchange, asked.routing_key))
            case QueueDelete():
                self._forget()

    @property
    def place(self) -> str:
        """The queue, unlike any other that ever was."""
        return f"{self.queue} at {self.host.name}, {self.number}"

    def _forget(self) -> None:
        self.queue = ""
        self.number = self.world.ledger.new_queue()
        self.is_consuming = False
        self.bound.clear()

    def refused(self, close: ChannelClose) -> None:
        self.is_consuming = False
        super().refused(close)

    def cancelled(self) -> None:
        self._forget()

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        self.world.ledger.queued(self.place, body)


class Publisher(Application):
    """Publishes to exchanges, and waits for nothing."""

    def act(self) -> None:
        if self.asked is None and self.is_open:
            for _ in range(self.chance.choice((1, 1, 3))):
                exchange = self.chance.choice((*BUILT_IN, *BUILT_IN, *EXCHANGES))
                self.publish_at_once(exchange, self.chance.choice(KEYS), self.chance.choice((1, 1, 5)))
            if self.chance.random() < 0.2:
                self.publish_at_once("", self.chance.choice(tuple(QUEUES)), 5)


class Confirmer(Application):
    """Publishes, and wants to be told what became of each message."""

    def __init__(self, world: Nodes, host: Host) -> None:
        self.confirms = False
        self.number = 0
        self.waits: dict[int, int] = {}
        super().__init__(world, host)

    def act(self) -> None:
        if self.asked is not None or not self.is_open or len(self.waits) >= UNCONFIRMED_MAX:
            return
        if not self.confirms:
            self.ask(ConfirmSelect())
            return
        exchange, key = "", self.chance.choice(tuple(QUEUES))
        if self.chance.random() < 0.4:
            exchange, key = self.chance.choice((*BUILT_IN, *EXCHANGES)), self.chance.choice(KEYS)
        self.number += 1
        if not self.waits:
            self.waits_anew()
        self.waits[self.number] = self.world.now_us
        self.publish(exchange, key, mandatory=self.chance.random() < 0.3)

    def answered(self, asked: Method, answer: Method) -> None:
        self.confirms |= isinstance(asked, ConfirmSelect)

    def refused(self, close: ChannelClose) -> None:
        self.confirms = False
        self.number = 0
        self.waits.clear()
        super().refused(close)

    def gone(self) -> None:
        self.waits.clear()
        super().gone()

    def close(self) -> None:
        self.waits.clear()
        super().close()

    def confirmed(self, method: BasicAck | BasicNack) -> None:
        if not self.is_open:
            return
        tag = method.delivery_tag
        tags = [each for each in self.waits if each <= tag] if method.multiple else [tag]
        if any(each not in self.waits for each in tags):
            raise Violation(f"{self.host.name} confirms what does not wait: {method}")
        for each in tags:
            del self.waits[each]
        # They are taken one after another: each may have to wait for a root.
        self.waits_anew()

    def since_us(self) -> int | None:
        return self.asked_us if self.waits else super().since_us()


class Consumer(Application):
    """Consumes from a shared queue, with acks, and changes its mind."""

    def __init__(self, world: Nodes, host: Host) -> None:
        self.state = "new"
        self.no_ack = world.chance.random() < 0.2
        self.prefetch = world.chance.choice((0, 1, 3))
        super().__init__(world, host)

    def act(self) -> None:
        if self.asked is not None or not self.is_open:
            return
        if self.state == "new":
            self.ask(BasicQos(prefetch_count=self.prefetch))
        elif self.state == "ready":
            self.ask(BasicConsume(queue=self.chance.choice(tuple(QUEUES)), no_ack=self.no_ack))
        elif self.chance.random() < 0.05:
            self.close()

    def answered(self, asked: Method, answer: Method) -> None:
        match asked:
            case ChannelOpen():
                self.state = "new"
            case BasicQos():
                self.state = "ready"
            case BasicConsume():
                self.state = "consuming"

    def cancelled(self) -> None:
        self.state = "ready"

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        assert isinstance(method, BasicDeliver), method
        if self.no_ack:
            return
        if self.chance.random() < 0.9:
            self.say(method_frame(1, BasicAck(delivery_tag=method.delivery_tag)))
        else:
            self.say(method_frame(1, BasicNack(delivery_tag=method.delivery_tag, requeue=self.chance.random() < 0.7)))


class Operator(Application):
    """Changes policies, virtual hosts and users, as the HTTP API lets people do."""

    def __init__(self, world: Nodes, host: Host) -> None:
        self.change: Change | None = None
        super().__init__(world, host)

    def act(self) -> None:
        if self.change is not None or self.asked is not None or not self.is_open:
            return
        change = self.change = self._change()
        self.waits_anew()
        core = self.host.running.broker

        def done(result: object) -> None:
            if self.change is not change:
                raise Violation(f"{self.host.name} answers {change} twice")
            self.change = None

        self.world.give(self.host, self.host.life, lambda now_ms: core.define(change, done))

    def _change(self) -> Change:
        chance = self.chance
        name = chance.choice(("a", "b"))
        user = User(name=f"u{name}", permissions={"/": Permission(read=chance.choice((".*", "a")))})
        policy = Policy(
            vhost="/", name=name, pattern=f"^{name}|q[12]$", definition={"max-length": chance.randint(1, 9)}
        )
        return chance.choice(
            (
                PutPolicy(vhost="/", policy=policy),
                DeletePolicy(vhost="/", name=name),
                PutVhost(vhost=name),
                DeleteVhost(vhost=name),
                PutUser(user=user),
                DeleteUser(name=user.name),
                PutPermission(vhost=name, user=user.name, permission=Permission(write=".*")),
                DeletePermission(vhost=name, user=user.name),
                DeclareQueue(vhost=name, name="q"),
                Bind(vhost=name, source="amq.topic", destination="q", routing_key=chance.choice(PATTERNS)),
            )
        )

    def since_us(self) -> int | None:
        return self.asked_us if self.change is not None and self.is_open else super().since_us()


Kind = Callable[["Nodes", "Host"], Application]
KINDS: tuple[Kind, ...] = (Definer, Definer, Subscriber, Subscriber, Publisher, Confirmer, Consumer, Consumer, Operator)


class Workload:
    """Keeps applications at work on every broker until `end`. `bound_us` is how long an answer may take."""

    def __init__(self, world: Nodes, *, bound_us: int, kinds: tuple[Kind, ...] = KINDS) -> None:
        self._world = world
        self._bound_us = bound_us
        self._is_over = False
        chance = world.chance
        self._each = chance.choice((1, 2, 4))
        self._pause_us = chance.choice((5_000, 20_000, 80_000))
        self._kinds = [kind for kind in kinds if chance.random() < 0.8] or [Definer]
        world.on_start = self._employ
        world.after(0, 0, self._look)

    def end(self) -> None:
        self._is_over = True

    def _employ(self, host: Host) -> None:
        for _ in range(self._each):
            self._begin(host, host.life)

    def _begin(self, host: Host, life: int) -> None:
        """One more comes, in a while."""
        world = self._world
        kind = world.chance.choice(self._kinds)

        def begin() -> None:
            if host.life == life and host.is_up and not self._is_over:
                self._work(kind(world, host), life)

        world.after(1_000, 300_000, begin)

    def _work(self, application: Application, life: int) -> None:
        world, host = self._world, application.host

        def work() -> None:
            if host.life != life or self._is_over:
                return
            if not application.is_open:
                self._begin(host, life)
                return
            if world.chance.random() < 0.01:
                application.close()
            else:
                application.act()
            self._work(application, life)

        world.after(100, 2 * self._pause_us, work)

    def _look(self) -> None:
        """Nobody waits too long for an answer."""
        world = self._world
        for host in world.brokers.values():
            for application in host.applications:
                since_us = application.since_us()
                if since_us is None:
                    continue
                stalled_us = host.stalled_us - application.stalled_us
                if world.now_us - since_us - stalled_us > self._bound_us:
                    waited_ms = (world.now_us - since_us) // 1_000
                    raise Violation(f"{host.name} has not answered {application.asked} of {waited_ms} ms ago")
        world.after(200_000, 200_000, self._look)
