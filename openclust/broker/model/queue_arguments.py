"""The settings of a queue: the checked arguments of queue.declare, and the policies in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from openclust.broker.model.field_type import comparable, type_name, value_text
from openclust.broker.model.queue_setting import SETTINGS

_BY_ARGUMENT = {f"x-{name}": setting for name, setting in SETTINGS.items() if setting.by_argument}
# As in RabbitMQ a declaration may differ from the queue in these arguments.
_NEVER_COMPARED = {"x-queue-master-locator", "x-queue-leader-locator", "x-consumer-timeout"}


class QueueArgs(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The settings of one queue. None: not set, so the broker's default holds."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Literal["drop-head", "reject-publish", "reject-publish-dlx"] | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letter_strategy: Literal["at-most-once", "at-least-once"] | None = None
    max_priority: int | None = None
    single_active_consumer: bool = False
    queue_type: Literal["classic", "quorum"] = "classic"
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    consumer_prefetch_max: int | None = None
    last_value_key: str | None = None
    dedup: bool | None = None
    dedup_size: int | None = None
    dedup_ttl_ms: int | None = None
    dedup_header: str | None = None
    replicate: Literal["none", "configuration", "messages"] | None = None

    @property
    def window(self) -> tuple[object, ...]:
        """The settings of the dedup window."""
        return self.dedup, self.dedup_size, self.dedup_ttl_ms, self.dedup_header


NO_ARGS = QueueArgs()
"""Shared by all queues that were declared without arguments."""


def parse_queue_args(arguments: Mapping[str, Any] | None, *, queue: str, vhost: str) -> QueueArgs:
    """The settings in `arguments`. ValueError has the text for a 406. As in RabbitMQ unknown arguments are ignored."""
    if not arguments:
        return NO_ARGS
    fields: dict[str, Any] = {}
    for key, setting in _BY_ARGUMENT.items():
        if key not in arguments:
            continue
        try:
            value = setting.check(arguments[key])
        except ValueError as reason:
            raise _invalid(key, queue, vhost, str(reason)) from None
        if setting.field:
            fields[setting.field] = value
    if not fields:
        return NO_ARGS
    args = QueueArgs(**fields)
    for key, reason_why in _contradictions(args):
        raise _invalid(key, queue, vhost, reason_why)
    if args.queue_type == "quorum":
        args = msgspec.structs.replace(args, replicate="messages")
    return args


def check_properties(
    args: QueueArgs, *, queue: str, vhost: str, durable: bool, exclusive: bool, auto_delete: bool
) -> None:
    """ValueError with the text for a 406, if a quorum queue cannot have these properties."""
    if args.queue_type != "quorum":
        return
    for wrong, name in ((not durable, "non-durable"), (exclusive, "exclusive"), (auto_delete, "auto-delete")):
        if wrong:
            raise ValueError(
                f"invalid property '{name}' for {_place(queue, vhost)}: "
                "a quorum queue is durable, not exclusive and not auto-delete"
            )


def difference(wanted: Mapping[str, Any], existing: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first argument in which a declaration differs from the existing queue: its name, then both values.

    None stands for a missing argument. As in RabbitMQ unknown arguments are not compared, and types count: 10 is not
    equal to 10.0.
    """
    if not wanted and not existing:
        return None
    for key in _BY_ARGUMENT:
        if key in _NEVER_COMPARED:
            continue
        ours, theirs = wanted.get(key), existing.get(key)
        if key == "x-queue-type" and (ours or "classic") == (theirs or "classic"):
            continue
        if comparable(ours) != comparable(theirs):
            return key, ours, theirs
    return None


def inequivalent(key: str, wanted: Any, existing: Any, *, queue: str, vhost: str) -> str:
    """The text of the 406 for a `difference`."""
    place = f"inequivalent arg '{key}' for {_place(queue, vhost)}"
    if wanted is not None and existing is not None:
        return f"{place}: received '{value_text(wanted)}' but current is '{value_text(existing)}'"
    return f"{place}: received {_described(wanted)} but current is {_described(existing)}"


def with_policy(args: QueueArgs, policy: Mapping[str, Any]) -> QueueArgs:
    """The settings of a queue under a policy: the smaller of two limits; otherwise the argument, then the policy."""
    changes: dict[str, Any] = {}
    for name, value in policy.items():
        setting = SETTINGS.get(name)
        if setting is None or not setting.field or not setting.by_policy:
            continue
        value = setting.check(value)
        own = getattr(args, setting.field)
        if own is None or (setting.smaller_wins and value is not None and value < own):
            changes[setting.field] = value
    return msgspec.structs.replace(args, **changes) if changes else args


def _contradictions(args: QueueArgs) -> list[tuple[str, str]]:
    found = []
    if args.dead_letter_routing_key is not None and args.dead_letter_exchange is None:
        found.append(("x-dead-letter-routing-key", "there is no x-dead-letter-exchange to use it"))
    if args.last_value_key is not None and args.max_priority is not None:
        found.append(("x-last-value-key", "a last-value queue cannot have x-max-priority"))
    if args.queue_type == "quorum" and args.max_priority is not None:
        found.append(("x-max-priority", "a quorum queue cannot have priorities"))
    if args.queue_type == "quorum" and args.replicate not in (None, "messages"):
        found.append(("x-replicate", "a quorum queue replicates its messages"))
    return found


def _described(value: Any) -> str:
    return "none" if value is None else f"the value '{value_text(value)}' of type '{type_name(value)}'"


def _invalid(key: str, queue: str, vhost: str, reason: str) -> ValueError:
    return ValueError(f"invalid arg '{key}' for {_place(queue, vhost)}: {reason}")


def _place(queue: str, vhost: str) -> str:
    return f"queue '{value_text(queue)}' in vhost '{value_text(vhost)}'"
