"""Questions between brokers, and their replies."""

from __future__ import annotations

from openclust.cluster.inquiries.inquiries import PART_BYTES, QUESTION_BYTES_MAX, REPLY_BYTES_MAX, Inquiries
from openclust.cluster.protocol.leadership import Leadership
from openclust.cluster.protocol.links import Links
from openclust.cluster.protocol.messages import ControlMessage, Inquiry, InquiryReply, decode
from openclust.cluster.protocol.status import Reign
from openclust.wire.reader import FrameReader

PRIMARIES = ("p1", "p2")


class _Heard:
    """Reads the control messages out of the frames of an outbox."""

    def __init__(self) -> None:
        self.messages: list[ControlMessage] = []
        self._reader = FrameReader(self, 1_000_000)

    def read(self, data: bytes) -> list[ControlMessage]:
        self.messages.clear()
        self._reader.read(data)
        return list(self.messages)

    def on_publish(self, number: int, arguments: bytes, header: bytes, body: bytes) -> bool:
        self.messages.append(decode(body))
        return True

    def on_run(self, number: int, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        self.messages += [decode(body) for body in bodies]
        return len(bodies)

    def on_ack(self, number: int, delivery_tag: int, multiple: bool) -> bool:
        raise AssertionError("links only publish")

    def on_method(self, number: int, payload: bytes) -> bool:
        raise AssertionError("links only publish")

    def on_header(self, number: int, payload: bytes) -> bool:
        raise AssertionError("a publish comes whole here")

    def on_body(self, number: int, payload: bytes) -> bool:
        raise AssertionError("a publish comes whole here")


class Net:
    """Two primaries and two secondaries. Secondaries have no link to each other."""

    def __init__(self) -> None:
        self.links: dict[str, Links] = {}
        self.inquiries: dict[str, Inquiries] = {}
        for name in ("p1", "p2", "s1", "s2"):
            leadership: Leadership[object] = Leadership()
            leadership.lead(Reign(epoch=1, root="p1"), is_root=name == "p1")
            links = self.links[name] = Links(
                name, PRIMARIES, leadership, heartbeat_ms=100, is_alone=False, outbox_bytes_max=10_000_000
            )
            others = {"p1", "p2", "s1", "s2"} if name in PRIMARIES else {*PRIMARIES}
            for peer in others - {name}:
                links.outbox(peer).open(1_000_000)
            self.inquiries[name] = Inquiries(links)

    def carry(self) -> int:
        """Bring everybody what was sent; how many messages these were."""
        count = 0
        for name, links in self.links.items():
            self.inquiries[name].flush()
            outboxes, links.dirty[:] = list(links.dirty), []
            for outbox in outboxes:
                for message in _Heard().read(outbox.take()):
                    count += 1
                    self._bring(outbox.peer, message)
                outbox.waiting_bytes = 0
        return count

    def _bring(self, peer: str, message: ControlMessage) -> None:
        if isinstance(message, Inquiry):
            self.inquiries[peer].heard(message)
        elif isinstance(message, InquiryReply):
            self.inquiries[peer].replied(message)

    def settle(self) -> None:
        while self.carry():
            for inquiries in self.inquiries.values():
                for inquiry in inquiries.take_received():
                    inquiries.reply(inquiry, inquiry.body * 3)

    def ask(self, asker: str, target: str, body: bytes = b"?") -> list[bytes | None]:
        replies: list[bytes | None] = []
        self.inquiries[asker].ask(target, body, 1_000, replies.append)
        return replies


def test_any_broker_can_ask_any_other() -> None:
    net = Net()
    asked = [net.ask(one, other) for one in net.links for other in net.links if one != other]
    net.settle()
    assert asked == [[b"???"]] * 12


def test_a_long_reply_comes_in_parts_and_is_whole() -> None:
    net = Net()
    body = bytes(range(256)) * (PART_BYTES // 256)
    replies = net.ask("s1", "s2", body)
    net.settle()
    assert replies == [body * 3]


def test_a_question_that_cannot_be_sent_has_no_reply_at_once() -> None:
    net = Net()
    for peer in PRIMARIES:
        net.links["s1"].outbox(peer).close()
    assert net.ask("s1", "s2") == [None]
    assert net.ask("p1", "s2", b"x" * (QUESTION_BYTES_MAX + 1)) == [None]


def test_who_does_not_reply_in_time_is_given_up_and_a_late_reply_changes_nothing() -> None:
    net = Net()
    replies = net.ask("p1", "p2")
    net.carry()
    net.inquiries["p1"].tick(999)
    assert replies == []
    net.inquiries["p1"].tick(1_000)
    assert replies == [None]
    net.settle()
    assert replies == [None]


def test_a_reply_that_lost_a_part_is_no_reply() -> None:
    net = Net()
    replies = net.ask("p1", "p2", b"x" * PART_BYTES)
    net.carry()
    (inquiry,) = net.inquiries["p2"].take_received()
    net.inquiries["p2"].reply(inquiry, inquiry.body * 3)
    net.carry()
    net.inquiries["p2"].flush()
    net.links["p2"].outbox("p1").take()
    net.links["p2"].dirty.clear()
    net.settle()
    assert replies == [None]


def test_parts_wait_while_the_link_has_much_to_send() -> None:
    net = Net()
    replies = net.ask("p1", "p2", b"x" * PART_BYTES)
    net.carry()
    (inquiry,) = net.inquiries["p2"].take_received()
    outbox = net.links["p2"].outbox("p1")
    outbox.waiting_bytes = 10_000_000
    net.inquiries["p2"].reply(inquiry, inquiry.body * 3)
    net.inquiries["p2"].flush()
    assert not outbox.frames
    assert not net.inquiries["p2"].is_busy
    outbox.waiting_bytes = 0
    assert net.inquiries["p2"].is_busy
    net.settle()
    assert replies == [b"x" * PART_BYTES * 3]


def test_a_reply_that_is_too_large_is_not_sent() -> None:
    net = Net()
    replies = net.ask("p1", "p2")
    net.carry()
    (inquiry,) = net.inquiries["p2"].take_received()
    net.inquiries["p2"].reply(inquiry, b"x" * (REPLY_BYTES_MAX + 1))
    assert net.carry() == 0
    net.inquiries["p1"].tick(1_000)
    assert replies == [None]
