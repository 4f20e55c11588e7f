"""One queue and several consumers against a naive model: nothing lost, nothing doubled, everything in its order."""

from __future__ import annotations

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from openclust.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.client import Client, Delivery, new_broker, publish_frames
from tests.support.examples import examples
from tests.support.invariants import check

CLIENTS = 2
CHANNELS = 2
Place = tuple[int, int]
"""A client's and a channel's number."""

places = st.tuples(st.integers(0, CLIENTS - 1), st.integers(1, CHANNELS))
choices = st.integers(0, 1_000)


class QueueMachine(RuleBasedStateMachine):
    """The model: which messages wait, which came back at least once, and who holds which by which delivery tag."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = new_broker()
        self.publisher = Client(self.broker)
        self.publisher.queue("q")
        self.clients: list[Client] = [self._client() for _ in range(CLIENTS)]
        self.published = 0
        self.consumed = 0
        self.ready: set[int] = set()
        self.returned: set[int] = set()
        self.out: dict[Place, dict[int, tuple[int, str]]] = {}
        self.consumers: dict[Place, dict[str, tuple[int, bool]]] = {}
        self.prefetch_all: dict[Place, int] = {}

    def _client(self) -> Client:
        client = Client(self.broker)
        for number in range(2, CHANNELS + 1):
            client.open_channel(number)
        return client

    # -- what happens

    @rule(count=st.integers(1, 4))
    def publish(self, count: int) -> None:
        frames = []
        for _ in range(count):
            self.published += 1
            self.ready.add(self.published)
            frames.append(publish_frames("q", b"%d" % self.published))
        self.publisher.feed(b"".join(frames))
        self._hear()

    @rule(place=places, prefetch=st.integers(0, 3), no_ack=st.booleans(), priority=st.integers(0, 1))
    def consume(self, place: Place, prefetch: int, no_ack: bool, priority: int) -> None:
        client, channel = self.clients[place[0]], place[1]
        client.call(BasicQos(prefetch_count=prefetch), BasicQosOk, channel=channel)
        self.consumed += 1
        tag = f"consumer-{self.consumed}"
        consume = BasicConsume(queue="q", consumer_tag=tag, no_ack=no_ack, arguments={"x-priority": priority})
        self.consumers.setdefault(place, {})[tag] = (0 if no_ack else prefetch, no_ack)
        client.call(consume, BasicConsumeOk, channel=channel)
        self._hear()

    @precondition(lambda self: any(self.consumers.values()))
    @rule(choice=choices)
    def cancel(self, choice: int) -> None:
        everybody = [(place, tag) for place in sorted(self.consumers) for tag in self.consumers[place]]
        place, tag = everybody[choice % len(everybody)]
        del self.consumers[place][tag]
        self.clients[place[0]].call(BasicCancel(consumer_tag=tag), BasicCancelOk, channel=place[1])
        self._hear()

    @rule(place=places, limit=st.integers(0, 3))
    def limit_channel(self, place: Place, limit: int) -> None:
        self.prefetch_all[place] = limit
        method = BasicQos(prefetch_count=limit, global_=True)
        self.clients[place[0]].call(method, BasicQosOk, channel=place[1])
        self._hear()

    @rule(place=places, active=st.booleans())
    def flow(self, place: Place, active: bool) -> None:
        self.clients[place[0]].call(ChannelFlow(active=active), ChannelFlowOk, channel=place[1])
        self._hear()

    @precondition(lambda self: any(self.out.values()))
    @rule(choice=choices, multiple=st.booleans())
    def ack(self, choice: int, multiple: bool) -> None:
        place, tag = self._choose(choice)
        self._settle(place, tag, multiple)
        self.clients[place[0]].send(BasicAck(delivery_tag=tag, multiple=multiple), channel=place[1])
        self._hear()

    @precondition(lambda self: any(self.out.values()))
    @rule(choice=choices, multiple=st.booleans(), back=st.booleans())
    def nack(self, choice: int, multiple: bool, back: bool) -> None:
        place, tag = self._choose(choice)
        numbers = self._settle(place, tag, multiple)
        if back:
            self._return(numbers)
        self.clients[place[0]].send(BasicNack(delivery_tag=tag, multiple=multiple, requeue=back), channel=place[1])
        self._hear()

    @rule(place=places)
    def recover(self, place: Place) -> None:
        self._return([number for number, _ in self.out.pop(place, {}).values()])
        self.clients[place[0]].call(BasicRecover(requeue=True), BasicRecoverOk, channel=place[1])
        self._hear()

    @rule(place=places, no_ack=st.booleans())
    def get(self, place: Place, no_ack: bool) -> None:
        got = self.clients[place[0]].get("q", no_ack=no_ack, channel=place[1])
        assert (got is None) == (not self.ready)
        if got is not None:
            number = self._take(got)
            if not no_ack:
                self.out.setdefault(place, {})[got.tag] = (number, "")
        self._hear()

    @rule(place=places)
    def close_channel(self, place: Place) -> None:
        client, channel = self.clients[place[0]], place[1]
        self._forget(place)
        client.call(ChannelClose(), ChannelCloseOk, channel=channel)
        client.open_channel(channel)
        self._hear()

    @rule(index=st.integers(0, CLIENTS - 1))
    def lose_connection(self, index: int) -> None:
        for number in range(1, CHANNELS + 1):
            self._forget((index, number))
        self.clients[index].lose()
        self.clients[index] = self._client()
        # Its channels return one after another: what one returned may be gone before an older one is back.
        self._hear(in_order=False)

    @rule()
    def purge(self) -> None:
        ok = self.publisher.call(QueuePurge(queue="q"), QueuePurgeOk)
        assert ok.message_count == len(self.ready)
        self.ready.clear()

    # -- what the model makes of it

    def _choose(self, choice: int) -> tuple[Place, int]:
        everything = [(place, tag) for place in sorted(self.out) for tag in sorted(self.out[place])]
        return everything[choice % len(everything)]

    def _settle(self, place: Place, tag: int, multiple: bool) -> list[int]:
        held = self.out[place]
        tags = [each for each in sorted(held) if each == tag or (multiple and each < tag)]
        return [held.pop(each)[0] for each in tags]

    def _return(self, numbers: list[int]) -> None:
        self.ready.update(numbers)
        self.returned.update(numbers)

    def _forget(self, place: Place) -> None:
        self._return([number for number, _ in self.out.pop(place, {}).values()])
        self.consumers.pop(place, None)
        self.prefetch_all.pop(place, None)

    def _take(self, delivery: Delivery) -> int:
        """A delivery came: of a message that waits, marked as it must be."""
        number = int(delivery.body)
        assert number in self.ready, f"{number} was not to be delivered"
        assert delivery.redelivered is (number in self.returned)
        self.ready.remove(number)
        return number

    def _hear(self, *, in_order: bool = True) -> None:
        """What came to all: the first of what waited, and to each channel in ascending order."""
        before = sorted(self.ready)
        came: list[int] = []
        for index, client in enumerate(self.clients):
            for channel in range(1, CHANNELS + 1):
                place = (index, channel)
                here = [self._deliver(place, delivery) for delivery in client.deliveries(channel)]
                assert here == sorted(here) or not in_order, "out of order"
                came += here
        assert sorted(came) == before[: len(came)] or not in_order, "somebody was passed over"

    def _deliver(self, place: Place, delivery: Delivery) -> int:
        number = self._take(delivery)
        tag: str = delivery.method.consumer_tag  # type: ignore[union-attr]
        assert tag in self.consumers.get(place, {}), f"{tag} consumes no more"
        if not self.consumers[place][tag][1]:
            held = self.out.setdefault(place, {})
            assert delivery.tag > max(held, default=0)
            held[delivery.tag] = (number, tag)
            limit = self.prefetch_all.get(place, 0)
            of_consumers = [each for _, each in held.values() if each]
            assert not limit or len(of_consumers) <= limit, "more than the channel's credit"
        return number

    @invariant()
    def nobody_has_more_than_its_credit(self) -> None:
        for place, consumers in self.consumers.items():
            held = [tag for _, tag in self.out.get(place, {}).values()]
            for tag, (prefetch, _) in consumers.items():
                assert not prefetch or held.count(tag) <= prefetch

    @invariant()
    def the_accounts_are_right(self) -> None:
        check(self.broker)
        queue = self.broker.vhosts["/"].queues["q"]
        assert len(queue) == len(self.ready)
        assert queue.unacked == sum(map(len, self.out.values()))

    def teardown(self) -> None:
        """In the end everything that was never acknowledged is there, in its order."""
        for index in range(CLIENTS):
            self.lose_connection(index)
        rest = []
        while (got := self.publisher.get("q")) is not None:
            rest.append(int(got.body))
        assert rest == sorted(self.ready)
        check(self.broker)
        assert self.broker.memory_accounts.held_bytes == 0


QueueMachine.TestCase.settings = examples(30, step_count=40, suppress=list(HealthCheck))
TestAQueueAgainstItsModel = QueueMachine.TestCase
