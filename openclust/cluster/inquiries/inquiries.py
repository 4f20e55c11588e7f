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
        if fits and self._send(peer, question):
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
            if not self._send_parts(replying):
                self._replying.append(replying)

    @property
    def is_busy(self) -> bool:
        """Whether a reply goes on in the next turn."""
        return any(self._has_room(each.asker) for each in self._replying)

    def _send_parts(self, replying: _Replying) -> bool:
        """Whether the reply is done with: sent, or given up as there is no way to the asker."""
        if self._way_to(replying.asker) is None:
            self._replying_bytes -= len(replying.body)
            return True
        if not self._has_room(replying.asker):
            return False
        end = replying.at + PART_BYTES
        is_last = end >= len(replying.body)
        self._send(
            replying.asker,
            InquiryReply(
                number=replying.number,
                asker=replying.asker,
                replier=self._links.name,
                part=replying.part,
                is_last=is_last,
                body=replying.body[replying.at : end],
            ),
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
            self._links.send(peer, message)

    def _way_to(self, peer: str) -> str | None:
        """The neighbour to which what is for `peer` goes: itself, or the primary that relays; None if cut off."""
        outbox = self._links.outboxes.get(peer)
        if outbox is not None and outbox.is_up:
            return peer
        return self._links.relaying_primary() or None

    def _has_room(self, peer: str) -> bool:
        way = self._way_to(peer)
        if way is None:
            return True
        outbox = self._links.outboxes[way]
        return outbox.size + outbox.waiting_bytes < LINK_BYTES_MAX

    def _send(self, peer: str, message: Inquiry | InquiryReply) -> bool:
        way = self._way_to(peer)
        return way is not None and self._links.send(way, message)
