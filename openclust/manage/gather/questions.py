"""Questions of one broker to another for the management API, and their replies: tagged structs as msgpack.

Rows travel as JSON that is ready for the caller: the broker that gathers them orders and counts them, and decodes none.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from openclust.manage.gather.ages import NO_AGES, Ages
from openclust.manage.gather.selection import Selection


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks. Without `sees_all`: at the virtual hosts named, and at connections of its own."""

    name: str
    sees_all: bool
    vhosts: tuple[str, ...] = ()

    def sees(self, vhost: str) -> bool:
        return self.sees_all or vhost in self.vhosts


class ListRows(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rows of one kind, of one virtual host where one is named, and of one object where `of` names one.

    `of` is a connection for its channels and a user for its connections. Only rows with the values of `where` are
    wanted; by which columns a kind can be asked for so, it says itself. `is_own`: the broker that is asked is the one
    that gathers; it shows what no broker has at this time, such as a shared queue without a root.
    """

    kind: str
    viewer: Viewer
    selection: Selection = Selection()
    vhost: str | None = None
    of: str = ""
    where: dict[str, str] = {}
    is_own: bool = False
    ages: Ages = NO_AGES


class FindRow(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One row, with all that is shown of one object and not of a list."""

    kind: str
    viewer: Viewer
    name: str
    vhost: str = ""
    is_own: bool = False
    ages: Ages = NO_AGES


class CountTotals(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The numbers of the broker that is asked, as JSON: those of equal names are added to the other brokers' ones.

    `of` says which, as "overview"; `vhost` and `name` mean one virtual host or object only.
    `is_own` is that of ListRows: this broker counts what all have in common.
    """

    of: str
    viewer: Viewer
    vhost: str | None = None
    name: str = ""
    is_own: bool = False
    ages: Ages = NO_AGES


class Act(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An action on an object, for the broker that has the object."""

    action: str
    viewer: Viewer
    name: str
    vhost: str = ""
    arguments: dict[str, Any] = {}


Question: TypeAlias = ListRows | FindRow | CountTotals | Act


class ReplyRows(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first rows of a broker's own, in order, and how many it has: all, and those that the filter lets pass."""

    total: int = 0
    filtered: int = 0
    rows: list[tuple[tuple[int, Any, str, str], bytes]] = []


class ReplyValue(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A JSON value; empty where this broker does not have the object."""

    value: bytes = b""


class ReplyFailure(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The action failed: the status, the word and the line of the HTTP answer."""

    status: int
    error: str
    reason: str


Reply: TypeAlias = ReplyRows | ReplyValue | ReplyFailure

encode = msgspec.msgpack.Encoder().encode
_questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def decode_question(body: bytes) -> Question:
    """DecodeError where it makes no sense to this version."""
    return _questions.decode(body)


def decode_reply(body: bytes) -> Reply:
    """DecodeError where it makes no sense to this version."""
    return _replies.decode(body)
