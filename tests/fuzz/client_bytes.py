"""What a client might say: mostly sense, in any order, and now and then nonsense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from openclust.wire.codec import method_frame
from openclust.wire.frames import ENVELOPE, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, HEARTBEAT, PROTOCOL_HEADER, frame
from openclust.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from openclust.wire.properties import PREAMBLE, Properties, encode_header
from openclust.wire.table import Table, Timestamp, Value
from tests.fuzz.choices import Choices
from tests.support.house import greeting, start_ok
from tests.support.wire import METHODS, kinds_of

QUEUES = ("q0", "q1", "q2", "", "amq.rabbitmq.reply-to", "no-such")
EXCHANGES = ("e0", "e1", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "", "no-such")
KEYS = ("q0", "q1", "q2", "a.b", "a.*", "#", "", "amq.rabbitmq.reply-to.name-1", "k" * 255, "\udcff")
TAGS = ("t0", "t1", "")
BODIES = (0, 1, 5, 100, 4_087, 4_088, 4_089, 20_000)
HUGE = (2**31, 2**63 - 1, 2**64 - 1)

_WEIGHTED: tuple[type[Method], ...] = (
    *(QueueDeclare,) * 4,
    *(ExchangeDeclare,) * 2,
    *(QueueBind,) * 3,
    *(ExchangeBind,) * 2,
    *(BasicConsume,) * 4,
    *(BasicGet,) * 2,
    *(BasicAck, BasicNack, BasicReject) * 2,
    QueueUnbind,
    ExchangeUnbind,
    ExchangeDelete,
    QueueDelete,
    QueuePurge,
    BasicQos,
    BasicCancel,
    BasicRecover,
    ChannelFlow,
    ConfirmSelect,
    TxSelect,
    TxCommit,
    TxRollback,
)


def channel_number(choices: Choices) -> int:
    return choices.pick((3, 0, 2_047, 65_535)) if choices.chance(1) else 1 + choices.below(2)


# -- arguments


def value(choices: Choices, depth: int = 0) -> Value:
    """Any field value."""
    kind = choices.below(12 if depth < 3 else 9)
    scalars: tuple[Value, ...] = (
        None,
        True,
        choices.below(1_000),
        -1,
        2**63 - 1,
        1.5,
        choices.pick(KEYS),
        Timestamp(2**64 - 1),
        Decimal("1.50"),
    )
    if kind < 9:
        return scalars[kind]
    if kind == 9:
        return choices.octets(choices.below(8))
    if kind == 10:
        return [value(choices, depth + 1) for _ in range(choices.below(4))]
    return {choices.pick(KEYS): value(choices, depth + 1) for _ in range(choices.below(3))}


_QUEUE_ARGUMENTS: dict[str, tuple[Value, ...]] = {
    "x-max-length": (0, 1, 2, 3),
    "x-max-length-bytes": (0, 10, 1_000),
    "x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx"),
    "x-dead-letter-exchange": ("", "e0", "e1", "amq.fanout", "no-such"),
    "x-dead-letter-routing-key": ("q0", "q1", "k" * 256),
    "x-message-ttl": (0, 1, 50, 2**53),
    "x-expires": (1, 100, 2**53),
    "x-max-priority": (0, 1, 10, 255),
    "x-single-active-consumer": (True, False),
    "x-delivery-limit": (0, 1, 2),
    "x-queue-type": ("classic", "quorum"),
    "x-last-value-key": ("key",),
    "x-message-deduplication": (True,),
    "x-deduplication-size": (1, 2),
    "x-deduplication-ttl": (0, 10),
    "x-deduplication-header": ("key",),
    "x-consumer-timeout": (1, 200),
    "x-priority": (-1, 0, 1, 2**63 - 1),
    "alternate-exchange": ("e0", "e1", "amq.fanout", "no-such"),
    "x-match": ("all", "any", "all-with-x", "any-with-x", "some"),
    "key": ("a", 1),
}


_RECIPES: tuple[Table, ...] = (
    {},
    {"x-last-value-key": "key"},
    {"x-max-priority": 10, "x-max-length": 2},
    {"x-max-priority": 3, "x-message-ttl": 50, "x-dead-letter-exchange": "e0"},
    {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"},
    {"x-max-length": 2, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "e0"},
    {"x-max-length-bytes": 20, "x-overflow": "reject-publish", "x-message-deduplication": True},
    {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q2"},
    {"x-message-ttl": 0, "x-dead-letter-exchange": ""},
    {"x-single-active-consumer": True, "x-delivery-limit": 1, "x-dead-letter-exchange": "amq.fanout"},
    {"x-message-deduplication": True, "x-deduplication-size": 1, "x-deduplication-ttl": 50},
    {"x-expires": 100},
)
"""Queues in which several settings meet."""


def arguments(choices: Choices) -> Table:
    """A method's table: usually empty or of known arguments, sometimes of anything."""
    if choices.chance(50):
        return {}
    if choices.chance(50):
        return dict(choices.pick(_RECIPES))
    names = sorted(_QUEUE_ARGUMENTS)
    table: Table = {}
    for _ in range(1 + choices.below(3)):
        name = choices.pick(names)
        table[name] = value(choices) if choices.chance(10) else choices.pick(_QUEUE_ARGUMENTS[name])
    return table


_BY_NAME: dict[str, tuple[object, ...]] = {
    "queue": QUEUES,
    "exchange": EXCHANGES,
    "source": EXCHANGES,
    "destination": (*EXCHANGES, *QUEUES),
    "routing_key": KEYS,
    "consumer_tag": TAGS,
    "type": ("direct", "fanout", "topic", "headers", "direct", "fanout", "topic", "headers", "x-no-such"),
    "prefetch_count": (0, 1, 2, 3),
    "prefetch_size": (0, 0, 0, 0, 0, 0, 0, 0, 1),
    "virtual_host": ("/", "no-such"),
    "mechanism": ("PLAIN", "AMQPLAIN", "EXTERNAL", ""),
    "frame_max": (0, 4_096, 8_192, 131_072, 100, 2**32 - 1),
}
_BY_KIND: dict[str, tuple[object, ...]] = {
    "Octet": (0, 255),
    "Short": (0, 1, 2_047, 65_535),
    "Long": (0, 1, 4_096, 2**32 - 1),
    "ShortStr": ("", "x", "\udcff" * 255),
    "LongStr": (b"", b"\0guest\0guest", b"\xff" * 300),
}


_FLAGS = {"requeue": 80, "multiple": 50, "no_ack": 50, "active": 60, "immediate": 1, "passive": 5, "internal": 5}
"""How often, in percent, a flag is set: some are little but a refusal."""


def method_of(choices: Choices, kind: type[Method], tags: Sequence[int] = ()) -> Method:
    """That method, with arguments that often mean something here."""
    given: dict[str, object] = {}
    for name, type_name in kinds_of(kind).items():
        if type_name == "FieldTable":
            given[name] = arguments(choices)
        elif type_name == "Bit":
            given[name] = choices.chance(_FLAGS.get(name, 15))
        elif name == "delivery_tag":
            given[name] = choices.pick(tags) if tags and choices.chance(90) else choices.pick((0, 0, 1, 2, *HUGE))
        elif name in _BY_NAME:
            options = _BY_NAME[name]
            given[name] = (
                options[choices.below(3)] if choices.chance(92) and len(options) > 2 else choices.pick(options)
            )
        else:
            given[name] = choices.pick(_BY_KIND[type_name])
    return kind(**given)


# -- frames


def method_bytes(choices: Choices, tags: Sequence[int] = ()) -> bytes:
    kind = choices.pick(METHODS) if choices.chance(1) else choices.pick(_WEIGHTED)
    return method_frame(channel_number(choices), method_of(choices, kind, tags))


def open_bytes(choices: Choices, tags: Sequence[int] = ()) -> bytes:
    """A channel begins; or ends, and begins again."""
    number = channel_number(choices)
    end = b"" if choices.chance(50) else method_frame(number, choices.pick((ChannelClose(), ChannelCloseOk())))
    return end + method_frame(number, ChannelOpen())


def header_bytes(choices: Choices, size: int) -> bytes:
    """A content header's payload, right for a body of `size` or not."""
    if choices.chance(1):
        flags = choices.below(0x10000)
        return PREAMBLE.pack(60, 0, size, flags) + choices.octets(choices.below(12))
    if choices.chance(1):
        return PREAMBLE.pack(choices.pick((0, 10, 60)), choices.below(2), choices.pick((size, size + 1, *HUGE)), 0)
    properties = Properties()
    if choices.chance(40):
        return encode_header(properties, size)
    if choices.chance(60):
        properties.headers = message_headers(choices)
    if choices.chance(30):
        properties.expiration = choices.pick(
            ("0", "1", "50", "50", "50", "600", "9007199254740992", "9007199254740993", "-1", "x", "")
        )
    if choices.chance(20):
        properties.reply_to = choices.pick(("amq.rabbitmq.reply-to", "q0"))
    if choices.chance(20):
        properties.priority = choices.pick((0, 1, 5, 255))
    if choices.chance(10):
        properties.user_id = choices.pick(("guest", "root"))
    properties.message_id = choices.pick((None, "m0", "m1"))
    return encode_header(properties, size)


def message_headers(choices: Choices) -> Table:
    headers: Table = {}
    copies: tuple[Value, ...] = (["q1"], ["q0", "a.b"], "q0", [1], ["k" * 256])
    if choices.chance(15):
        headers[choices.pick(("CC", "BCC"))] = choices.pick(copies)
    if choices.chance(15):
        count = choices.pick((1, -1, 2**63 - 1, "many", None))
        death: Table = {
            "queue": choices.pick(QUEUES),
            "reason": choices.pick(("rejected", "maxlen", "expired")),
            "count": count,
        }
        deaths: tuple[Value, ...] = ([death], death, [1, death], [])
        headers["x-death"] = choices.pick(deaths)
    if choices.chance(70):
        headers["key"] = value(choices) if choices.chance(10) else choices.pick(("a", "b", 1))
    return headers


def publish_bytes(choices: Choices, tags: Sequence[int] = ()) -> bytes:
    """A message as it should be, or nearly."""
    number = channel_number(choices)
    size = choices.pick(BODIES) if choices.chance(20) else choices.below(30)
    body = b"b" * size
    method = method_frame(number, method_of(choices, BasicPublish))
    frames = [method, frame(FRAME_HEADER, number, header_bytes(choices, size))]
    piece = choices.pick((4_088, 4_088, 1_000, max(1, size // 2)))
    frames += [frame(FRAME_BODY, number, body[at : at + piece]) for at in range(0, size, piece)]
    if choices.chance(1):
        frames.insert(choices.below(len(frames) + 1), choices.pick((HEARTBEAT, method, method_bytes(choices))))
    if choices.chance(1):
        del frames[choices.below(len(frames))]
    return b"".join(frames)


def farewell_bytes(choices: Choices, tags: Sequence[int] = ()) -> bytes:
    return method_frame(0, choices.pick((ConnectionClose(reply_code=200), ConnectionCloseOk())))


def garbage_bytes(choices: Choices, tags: Sequence[int] = ()) -> bytes:
    """Frames that are none: wrong types, ends and sizes, cut short, too large, or no frames at all."""
    kind = choices.pick((FRAME_METHOD, FRAME_HEADER, FRAME_BODY, 8, 0, 4, 255))
    payload = choices.octets(choices.below(20))
    number = channel_number(choices)
    whole = frame(kind, number, payload)
    damages: tuple[bytes, ...] = (
        whole,
        whole[:-1] + b"\0",
        whole[: choices.below(len(whole) + 1)],
        ENVELOPE.pack(kind, number, choices.pick((131_065, 2**31, 2**32 - 1))) + payload,
        frame(kind, number, b"\xce" * choices.pick((4_089, 140_000))),
        payload,
        PROTOCOL_HEADER,
        method_frame(number, choices.pick(METHODS)())[:-1] + b"\xcd",
    )
    return choices.pick(damages)


def flipped_bytes(choices: Choices, tags: Sequence[int] = ()) -> bytes:
    """A good frame in which one byte is another."""
    data = bytearray(choices.pick((publish_bytes, method_bytes))(choices))
    data[choices.below(len(data))] = choices.below(256)
    return bytes(data)


_SPEECHES: tuple[tuple[int, Callable[[Choices, Sequence[int]], bytes]], ...] = (
    (110, method_bytes),
    (80, publish_bytes),
    (2, open_bytes),
    (2, flipped_bytes),
    (1, garbage_bytes),
    (1, farewell_bytes),
    (1, lambda choices, tags: HEARTBEAT),
)
_TABLE = tuple(speak for weight, speak in _SPEECHES for _ in range(weight))


def stage(choices: Choices) -> bytes:
    """Queues and exchanges to play with, each declared on a channel of its own: some may be refused."""
    said: list[Method] = [
        *(
            QueueDeclare(queue=name, arguments=choices.pick(_RECIPES), auto_delete=choices.chance(10))
            for name in QUEUES[:3]
        ),
        *(
            ExchangeDeclare(
                exchange=name,
                type=choices.pick(("direct", "fanout", "topic", "headers")),
                auto_delete=choices.chance(20),
                arguments=arguments(choices),
            )
            for name in EXCHANGES[:2]
        ),
    ]
    for _ in range(choices.below(4)):
        said.append(
            QueueBind(
                queue=choices.pick(QUEUES[:3]), exchange=choices.pick(EXCHANGES[:5]), routing_key=choices.pick(KEYS)
            )
        )
    return b"".join(
        method_frame(number, ChannelOpen()) + method_frame(number, method) for number, method in enumerate(said, 1)
    )


def speech(choices: Choices, tags: Sequence[int] = ()) -> bytes:
    """A few things that a client says at once; `tags` are of deliveries that it has seen."""
    return b"".join(choices.pick(_TABLE)(choices, tags) for _ in range(1 + choices.below(4)))


def opening(choices: Choices) -> bytes:
    """How a client begins: nearly always well."""
    if choices.chance(4):
        return choices.pick(
            (b"GET / HTTP/1.1\r\n", b"AMQP\0\0\x09\0", b"AMQ", PROTOCOL_HEADER + garbage_bytes(choices))
        )
    if choices.chance(4):
        login = start_ok(
            {"capabilities": value(choices)}, choices.pick((b"", b"\0guest\0wrong", b"\0\0", b"\0guest\0guest"))
        )
        return PROTOCOL_HEADER + login + speech(choices)
    frame_max = choices.pick((0, 4_096, 4_096, 8_192, 131_072))
    whole = greeting(frame_max=frame_max, channel_max=choices.pick((0, 0, 10)))
    whole += b"".join(method_frame(number, ChannelOpen()) for number in (1, 2))
    return whole + start_ok() if choices.chance(2) else whole
