"""The methods of AMQP 0-9-1 and of RabbitMQ's extensions, each a frozen struct with its arguments in wire order.

The annotations say how an argument is encoded; `codec.py` reads them. Names are the specification's.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from openclust.wire.table import Table

Octet: TypeAlias = int
Short: TypeAlias = int
Long: TypeAlias = int
LongLong: TypeAlias = int
ShortStr: TypeAlias = str
LongStr: TypeAlias = bytes
Bit: TypeAlias = bool
FieldTable: TypeAlias = Table


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One method. `ID` is its class and method number; peers may send it where `BY_CLIENT` is true."""

    ID: ClassVar[tuple[int, int]] = (0, 0)
    BY_CLIENT: ClassVar[bool] = False


class ConnectionStart(Method, frozen=True, kw_only=True):
    ID = (10, 10)
    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: FieldTable = {}
    mechanisms: LongStr = b""
    locales: LongStr = b""


class ConnectionStartOk(Method, frozen=True, kw_only=True):
    ID = (10, 11)
    BY_CLIENT = True
    client_properties: FieldTable = {}
    mechanism: ShortStr = ""
    response: LongStr = b""
    locale: ShortStr = ""


class ConnectionSecure(Method, frozen=True, kw_only=True):
    ID = (10, 20)
    challenge: LongStr = b""


class ConnectionSecureOk(Method, frozen=True, kw_only=True):
    ID = (10, 21)
    BY_CLIENT = True
    response: LongStr = b""


class ConnectionTune(Method, frozen=True, kw_only=True):
    ID = (10, 30)
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionTuneOk(Method, frozen=True, kw_only=True):
    ID = (10, 31)
    BY_CLIENT = True
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionOpen(Method, frozen=True, kw_only=True):
    ID = (10, 40)
    BY_CLIENT = True
    virtual_host: ShortStr = "/"
    capabilities: ShortStr = ""
    insist: Bit = False


class ConnectionOpenOk(Method, frozen=True, kw_only=True):
    ID = (10, 41)
    known_hosts: ShortStr = ""


class ConnectionRedirect(Method, frozen=True, kw_only=True):
    ID = (10, 42)
    host: ShortStr = ""
    known_hosts: ShortStr = ""


class ConnectionClose(Method, frozen=True, kw_only=True):
    ID = (10, 50)
    BY_CLIENT = True
    reply_code: Short = 0
    reply_text: ShortStr = ""
    failing_class_id: Short = 0
    failing_method_id: Short = 0


class ConnectionCloseOk(Method, frozen=True, kw_only=True):
    ID = (10, 51)
    BY_CLIENT = True


class ConnectionBlocked(Method, frozen=True, kw_only=True):
    ID = (10, 60)
    BY_CLIENT = True
    reason: ShortStr = ""


class ConnectionUnblocked(Method, frozen=True, kw_only=True):
    ID = (10, 61)
    BY_CLIENT = True


class ConnectionUpdateSecret(Method, frozen=True, kw_only=True):
    ID = (10, 70)
    BY_CLIENT = True
    new_secret: LongStr = b""
    reason: ShortStr = ""


class ConnectionUpdateSecretOk(Method, frozen=True, kw_only=True):
    ID = (10, 71)


class ChannelOpen(Method, frozen=True, kw_only=True):
    ID = (20, 10)
    BY_CLIENT = True
    reserved_1: ShortStr = ""


class ChannelOpenOk(Method, frozen=True, kw_only=True):
    ID = (20, 11)
    reserved_1: LongStr = b""


class ChannelFlow(Method, frozen=True, kw_only=True):
    ID = (20, 20)
    BY_CLIENT = True
    active: Bit = False


class ChannelFlowOk(Method, frozen=True, kw_only=True):
    ID = (20, 21)
    BY_CLIENT = True
    active: Bit = False


class ChannelClose(Method, frozen=True, kw_only=True):
    ID = (20, 40)
    BY_CLIENT = True
    reply_code: Short = 0
    reply_text: ShortStr = ""
    failing_class_id: Short = 0
    failing_method_id: Short = 0


class ChannelCloseOk(Method, frozen=True, kw_only=True):
    ID = (20, 41)
    BY_CLIENT = True


class AccessRequest(Method, frozen=True, kw_only=True):
    ID = (30, 10)
    BY_CLIENT = True
    realm: ShortStr = ""
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


class AccessRequestOk(Method, frozen=True, kw_only=True):
    ID = (30, 11)
    ticket: Short = 1


class ExchangeDeclare(Method, frozen=True, kw_only=True):
    ID = (40, 10)
    BY_CLIENT = True
    reserved_1: Short = 0
    exchange: ShortStr = ""
    type: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = {}


class ExchangeDeclareOk(Method, frozen=True, kw_only=True):
    ID = (40, 11)


class ExchangeDelete(Method, frozen=True, kw_only=True):
    ID = (40, 20)
    BY_CLIENT = True
    reserved_1: Short = 0
    exchange: ShortStr = ""
    if_unused: Bit = False
    no_wait: Bit = False


class ExchangeDeleteOk(Method, frozen=True, kw_only=True):
    ID = (40, 21)


class ExchangeBind(Method, frozen=True, kw_only=True):
    ID = (40, 30)
    BY_CLIENT = True
    reserved_1: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = {}


class ExchangeBindOk(Method, frozen=True, kw_only=True):
    ID = (40, 31)


class ExchangeUnbind(Method, frozen=True, kw_only=True):
    ID = (40, 40)
    BY_CLIENT = True
    reserved_1: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = {}


class ExchangeUnbindOk(Method, frozen=True, kw_only=True):
    ID = (40, 51)


class QueueDeclare(Method, frozen=True, kw_only=True):
    ID = (50, 10)
    BY_CLIENT = True
    reserved_1: Short = 0
    queue: ShortStr = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = {}


class QueueDeclareOk(Method, frozen=True, kw_only=True):
    ID = (50, 11)
    queue: ShortStr = ""
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(Method, frozen=True, kw_only=True):
    ID = (50, 20)
    BY_CLIENT = True
    reserved_1: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = {}


class QueueBindOk(Method, frozen=True, kw_only=True):
    ID = (50, 21)


class QueuePurge(Method, frozen=True, kw_only=True):
    ID = (50, 30)
    BY_CLIENT = True
    reserved_1: Short = 0
    queue: ShortStr = ""
    no_wait: Bit = False


class QueuePurgeOk(Method, frozen=True, kw_only=True):
    ID = (50, 31)
    message_count: Long = 0


class QueueDelete(Method, frozen=True, kw_only=True):
    ID = (50, 40)
    BY_CLIENT = True
    reserved_1: Short = 0
    queue: ShortStr = ""
    if_unused: Bit = False
    if_empty: Bit = False
    no_wait: Bit = False


class QueueDeleteOk(Method, frozen=True, kw_only=True):
    ID = (50, 41)
    message_count: Long = 0


class QueueUnbind(Method, frozen=True, kw_only=True):
    ID = (50, 50)
    BY_CLIENT = True
    reserved_1: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    arguments: FieldTable = {}


class QueueUnbindOk(Method, frozen=True, kw_only=True):
    ID = (50, 51)


class BasicQos(Method, frozen=True, kw_only=True):
    ID = (60, 10)
    BY_CLIENT = True
    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


class BasicQosOk(Method, frozen=True, kw_only=True):
    ID = (60, 11)


class BasicConsume(Method, frozen=True, kw_only=True):
    ID = (60, 20)
    BY_CLIENT = True
    reserved_1: Short = 0
    queue: ShortStr = ""
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = {}


class BasicConsumeOk(Method, frozen=True, kw_only=True):
    ID = (60, 21)
    consumer_tag: ShortStr = ""


class BasicCancel(Method, frozen=True, kw_only=True):
    ID = (60, 30)
    BY_CLIENT = True
    consumer_tag: ShortStr = ""
    no_wait: Bit = False


class BasicCancelOk(Method, frozen=True, kw_only=True):
    ID = (60, 31)
    BY_CLIENT = True
    consumer_tag: ShortStr = ""


class BasicPublish(Method, frozen=True, kw_only=True):
    ID = (60, 40)
    BY_CLIENT = True
    reserved_1: Short = 0
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, frozen=True, kw_only=True):
    ID = (60, 50)
    reply_code: Short = 0
    reply_text: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


class BasicDeliver(Method, frozen=True, kw_only=True):
    ID = (60, 60)
    consumer_tag: ShortStr = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


class BasicGet(Method, frozen=True, kw_only=True):
    ID = (60, 70)
    BY_CLIENT = True
    reserved_1: Short = 0
    queue: ShortStr = ""
    no_ack: Bit = False


class BasicGetOk(Method, frozen=True, kw_only=True):
    ID = (60, 71)
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    message_count: Long = 0


class BasicGetEmpty(Method, frozen=True, kw_only=True):
    ID = (60, 72)
    reserved_1: ShortStr = ""


class BasicAck(Method, frozen=True, kw_only=True):
    ID = (60, 80)
    BY_CLIENT = True
    delivery_tag: LongLong = 0
    multiple: Bit = False


class BasicReject(Method, frozen=True, kw_only=True):
    ID = (60, 90)
    BY_CLIENT = True
    delivery_tag: LongLong = 0
    requeue: Bit = True


class BasicRecoverAsync(Method, frozen=True, kw_only=True):
    ID = (60, 100)
    BY_CLIENT = True
    requeue: Bit = False


class BasicRecover(Method, frozen=True, kw_only=True):
    ID = (60, 110)
    BY_CLIENT = True
    requeue: Bit = False


class BasicRecoverOk(Method, frozen=True, kw_only=True):
    ID = (60, 111)


class BasicNack(Method, frozen=True, kw_only=True):
    ID = (60, 120)
    BY_CLIENT = True
    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


class ConfirmSelect(Method, frozen=True, kw_only=True):
    ID = (85, 10)
    BY_CLIENT = True
    no_wait: Bit = False


class ConfirmSelectOk(Method, frozen=True, kw_only=True):
    ID = (85, 11)


class TxSelect(Method, frozen=True, kw_only=True):
    ID = (90, 10)
    BY_CLIENT = True


class TxSelectOk(Method, frozen=True, kw_only=True):
    ID = (90, 11)


class TxCommit(Method, frozen=True, kw_only=True):
    ID = (90, 20)
    BY_CLIENT = True


class TxCommitOk(Method, frozen=True, kw_only=True):
    ID = (90, 21)


class TxRollback(Method, frozen=True, kw_only=True):
    ID = (90, 30)
    BY_CLIENT = True


class TxRollbackOk(Method, frozen=True, kw_only=True):
    ID = (90, 31)
