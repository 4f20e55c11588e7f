"""How a root makes a change of definitions: done here, appended to the log, and answered when it is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openclust.broker.cluster_port import Done
from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import (
    Change,
    DeclareExchange,
    DeclareQueue,
    PutGlobalParameter,
    PutParameter,
    PutTopicPermission,
    unconditional,
)
from openclust.broker.server.change_performer import holds
from openclust.cluster.log.followers import Followers, Waiting
from openclust.cluster.log.log import Log
from openclust.cluster.protocol.status import Position
from openclust.wire.errors import PRECONDITION_FAILED, RESOURCE_ERROR, AmqpError, ChannelError

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.definitions.definitions import Definitions


BOUNDED = (DeclareQueue, DeclareExchange, PutParameter, PutGlobalParameter, PutTopicPermission)
"""Definitions that are refused where there is no more room for them."""


class Defining:
    """`append` puts an encoded change into the log."""

    def __init__(
        self,
        broker: Broker,
        log: Log,
        epoch: int,
        definitions: Definitions,
        followers: Followers,
        append: Callable[[bytes], None],
    ) -> None:
        self._broker = broker
        self._log = log
        self._epoch = epoch
        self._definitions = definitions
        self._followers = followers
        self._append = append
        self._after: list[Change] | None = None

    def define(self, change: Change, done: Done, *, for_other: bool) -> None:
        """Make a change; for another broker, or for an application here."""
        if self._after is not None:
            # The change under way brings this one with it: it comes behind that in the log too.
            self._after.append(change)
            return
        change, wanted = unconditional(change), change
        is_new = not holds(self._broker, wanted)
        size = self._definitions.size
        if is_new and isinstance(change, BOUNDED) and size.is_full():
            limit = size.bytes_max // 1_048_576
            done(ChannelError(RESOURCE_ERROR, f"the cluster's definitions fill the {limit} MB they may (state_max_mb)"))
            return
        self._after = []
        try:
            body = encode_change(change)
            result = self._definitions.hidden.decide(wanted)
        except ValueError as error:
            done(ChannelError(PRECONDITION_FAILED, str(error)))
            return
        except AmqpError as error:
            done(error)
            return
        finally:
            after, self._after = self._after, None
        last = self._log.last
        position = Position(self._epoch, last.sequence + 1) if is_new else last
        # Before the entry is appended: when the election hears of that, it may find that this broker is root no more.
        self._followers.wait(Waiting(None if for_other else wanted, position, done, result, self._broker.now_ms))
        if is_new:
            size.added(body)
            self._append(body)
        for each in after:
            self._broker.define(each)
        self._followers.settle()
