"""Checks of names, patterns, policies and arguments, for documents and for the HTTP API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from openclust.broker.model.access import Permission, TopicPermission
from openclust.broker.model.field_type import value_text
from openclust.broker.model.policy import Policy, checked
from openclust.wire.errors import AmqpError
from openclust.wire.table import Table, decode_table, encode_table

NAME_BYTES_MAX = 255  # a short string of the protocol
PATTERN_CHARACTERS_MAX = 4_096


def permission_of(configure: str, write: str, read: str) -> Permission:
    """The permission of these patterns. ValueError names one that is no regular expression."""
    for action, pattern in (("configure", configure), ("write", write), ("read", read)):
        _check_pattern(action, pattern)
    # As in RabbitMQ an empty pattern means ^$: as a regular expression it would match every name.
    return Permission(configure or "^$", write or "^$", read or "^$")


def topic_permission_of(write: str, read: str) -> TopicPermission:
    """The topic permission of these patterns. ValueError names one that is no regular expression."""
    for action, pattern in (("write", write), ("read", read)):
        _check_pattern(action, pattern)
    return TopicPermission(write, read)


class BadPattern(ValueError):
    """A pattern that is no regular expression: the problem, and its place in the pattern."""

    def __init__(self, action: str, pattern: str, problem: str, position: int) -> None:
        super().__init__(f"the {action} pattern '{value_text(pattern)}' is no regular expression: {problem}")
        self.pattern = pattern
        self.problem = problem
        self.position = position


def _check_pattern(action: str, pattern: str) -> None:
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"the {action} pattern has more than {PATTERN_CHARACTERS_MAX} characters")
    try:
        re.compile(pattern)
    except re.error as error:
        raise BadPattern(action, pattern, str(error), error.pos or 0) from None
    except (RecursionError, OverflowError) as error:
        raise BadPattern(action, pattern, str(error), 0) from None


def vhost_metadata(told: Mapping[str, Any], before: Table) -> Table:
    """What a virtual host is told to be, over what it is; ValueError for what it cannot be.

    RabbitMQ shows `undefined` as the queue type of a virtual host that has no default.
    """
    metadata = {**before, **told}
    tags = metadata.get("tags", [])
    tags = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("the tags of a virtual host are a list of texts, or one with commas")
    if "tags" in metadata:
        metadata["tags"] = [tag.strip() for tag in tags if tag.strip()]
    if not isinstance(metadata.get("description", ""), str):
        raise ValueError("the description of a virtual host is a text")
    if metadata.get("default_queue_type") == "undefined":
        del metadata["default_queue_type"]
    type = metadata.get("default_queue_type", "classic")
    if type not in ("classic", "quorum"):
        raise ValueError(f"the default queue type is classic or quorum, not '{value_text(str(type))}'")
    if not isinstance(metadata.get("tracing", False), bool):
        raise ValueError("tracing is true or false")
    return checked_arguments(metadata)


def check_policy(policy: Policy, *, operator: bool) -> None:
    """ValueError for a policy that cannot be set. Its text does not name the policy: the caller does."""
    check_short(policy.name, "the name of a policy")
    if len(policy.pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"the pattern has more than {PATTERN_CHARACTERS_MAX} characters")
    try:
        checked(policy, operator=operator)
        msgspec.json.encode(policy)
    except (RecursionError, OverflowError):
        raise ValueError("the pattern or the definition is too deep") from None
    except ValueError as error:
        name = f"policy '{value_text(policy.name)}' in vhost '{value_text(policy.vhost)}': "
        raise ValueError(str(error).removeprefix("operator ").removeprefix(name)) from None


def check_name(name: str, what: str) -> None:
    """ValueError unless it is a name that fits the protocol."""
    check_short(name, what)
    if not name:
        raise ValueError(f"{what} must not be empty")


def check_short(text: str, what: str) -> None:
    if len(text.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise ValueError(f"{what} has more than {NAME_BYTES_MAX} bytes")


def checked_arguments(arguments: Table) -> Table:
    """The arguments. ValueError if AMQP cannot encode them."""
    try:
        decode_table(encode_table(arguments), 0)
    except RecursionError:
        raise ValueError("the arguments nest too deep") from None
    except AmqpError as error:
        raise ValueError(f"arguments: {error.text}") from None
    except ValueError as error:
        raise ValueError(f"arguments: {error}") from None
    return arguments
