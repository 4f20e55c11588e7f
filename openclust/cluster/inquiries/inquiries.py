"""Questions between brokers that are not about messages: whoever is asked for a list of connections asks all brokers.

The bytes of a question and of its reply mean nothing here. A secondary has links to primaries only: what it asks
another secondary goes through the primary that relays messages too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from openclust.cluster.protocol.links import Links
from openclust.cluster.protocol.messages import Inquiry, InquiryReply
from openclust.cluster.protocol.outbox import Outbox

QUESTION_BYTES_MAX = 262_144
REPLY_BYTES_MAX = 33_554_432
PART_BYTES = 65_536
LINK_BYTES_MAX = 524_288
"""Parts of replies wait while a link has so much to send: messages of applications go the same way."""
ASKED_MAX = 1_000
"""Questions of this broker that wait for a reply at the same time."""
REPLYING_BYTES_MAX = 67_108_864
"""All replies that wait for their links, together."""

Replied: TypeAlias = Callable[[bytes | None], None]
"""Gets the reply, or None if there is none in time."""


class _Asked:
    __slots__ = ("deadline_ms", "done", "parts", "peer", "size")

    def __init__(self, peer: str, deadline_ms: int, done: Replied) -> None:
        self.peer = peer
        self.deadline_ms = deadline_ms
        self.done = done
        self.parts: list[bytes] = []
        self.size = 0


class _Replying:
    """The rest of a reply."""

    __slots__ = ("asker", "at", "body", "number", "part")

    def __init__(self, asker: str, number: int, body: bytes) -> None:
        self.asker = asker
        self.number = number
        self.body = body
        self.at = 0
        self.part = 0


class Inquiries:
    """Whoever runs the broker takes `received` after each turn and calls `reply` for each; call `tick` every heartbeat,
    and `flush` at the end of each turn.
    """

    def __init__(self, links: Links) -> None:
        self._links = links
        self._next_number = 0
        self._asked: dict[int, _Asked] = {}
        self._replying: deque[_Replying] = deque()
        self._replying_bytes = 0
        self.received: list[Inquiry] = []

    # -- asking

    def ask(self, peer: str, body: bytes, deadline_ms: int, done: Replied) -> None:
        """Ask a broker; `done` is called once, at once where the question cannot be sent."""
        self._next_number += 1
        question = Inquiry(number=self._next_number, asker=self._links.name, target=peer, body=body)
        fits = len(body) <= QUESTION_BYTES_MAX and len(self._asked) < ASKED_MAX
        way = self._way_to(peer)
        if fits and way is not None and way.control(question):
            self._asked[question.number] = _Asked(peer, deadline_ms, done)
        else:
            done(None)

    def replied(self, message: InquiryReply) -> None:
        """A part of a reply came, for this broker or for one that this broker passes it on to."""
        if message.asker != self._links.name:
            self._pass_on(message.asker, message)
            return
        asked = self._asked.get(message.number)
        if asked is None or asked.peer != message.replier:
            return
        asked.size += len(message.body)
        if message.part != len(asked.parts) or asked.size > REPLY_BYTES_MAX:
            # A part was lost with its link.
            del self._asked[message.number]
            asked.done(None)
            return
        asked.parts.append(message.body)
        if message.is_last:
            del self._asked[message.number]
            asked.done(b"".join(asked.parts))

    def tick(self, now_ms: int) -> None:
        """Give up on what has waited for too long."""
        for number, asked in list(self._asked.items()):
            if now_ms >= asked.deadline_ms:
                del self._asked[number]
                asked.done(None)

    # -- being asked

    def heard(self, message: Inquiry) -> None:
        """A question came, for this broker or for one that this broker passes it on to."""
        if message.target == self._links.name:
            self.received.append(message)
        else:
            self._pass_on(message.target, message)

    def reply(self, inquiry: Inquiry, body: bytes) -> None:
        """The reply to a question that was received. One that is too large, or one too many, is not sent at all."""
        if len(body) <= REPLY_BYTES_MAX and self._replying_bytes + len(body) <= REPLYING_BYTES_MAX:
            self._replying_bytes += len(body)
            self._replying.append(_Replying(inquiry.asker, inquiry.number, body))

    def take_received(self) -> list[Inquiry]:
        received, self.received = self.received, []
        return received

    def flush(self) -> None:
        """Send parts of replies while the links have room, a part of each reply in its turn."""
        for _ in range(len(self._replying)):
            replying = self._replying.popleft()
            if not self._send_part(replying):
                self._replying.append(replying)

    @property
    def is_busy(self) -> bool:
        """Whether a reply goes on in the next turn. It is asked in every turn, and there seldom is a reply."""
        return bool(self._replying) and any(_has_room(self._way_to(each.asker)) for each in self._replying)

    def _send_part(self, replying: _Replying) -> bool:
        """Whether the reply is done with: sent, or given up as there is no way to the asker."""
        way = self._way_to(replying.asker)
        if way is None:
            self._replying_bytes -= len(replying.body)
            return True
        if not _has_room(way):
            return False
        end = replying.at + PART_BYTES
        is_last = end >= len(replying.body)
        way.control(
            InquiryReply(
                number=replying.number,
                asker=replying.asker,
                replier=self._links.name,
                part=replying.part,
                is_last=is_last,
                body=replying.body[replying.at : end],
            )
        )
        replying.at = end
        replying.part += 1
        if is_last:
            self._replying_bytes -= len(replying.body)
        return is_last

    # -- the way to a broker

    def _pass_on(self, peer: str, message: Inquiry | InquiryReply) -> None:
        """Send what is for another broker; it is dropped where that one does not read."""
        outbox = self._links.outboxes.get(peer)
        if outbox is not None and not outbox.is_full:
            outbox.control(message)

    def _way_to(self, peer: str) -> Outbox | None:
        """The outbox for what goes to `peer`: its own, or that of the primary that relays; None if there is no link."""
        outboxes = self._links.outboxes
        outbox = outboxes.get(peer)
        if outbox is not None and outbox.is_up:
            return outbox
        return outboxes.get(self._links.relaying_primary())


def _has_room(way: Outbox | None) -> bool:
    """Without a way the reply is given up, which needs no room."""
    return way is None or way.size + way.waiting_bytes < LINK_BYTES_MAX
