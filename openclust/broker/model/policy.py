"""Policies: settings for all queues and exchanges whose names match a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal

import msgspec

from openclust.broker.model.field_type import value_text
from openclust.broker.model.queue_setting import SETTINGS, Setting, anything, short_text

ApplyTo = Literal["all", "queues", "classic_queues", "quorum_queues", "exchanges"]
Kind = Literal["exchange", "classic_queue", "quorum_queue"]

_APPLIES: dict[str, frozenset[str]] = {
    "all": frozenset({"exchange", "classic_queue", "quorum_queue"}),
    "queues": frozenset({"classic_queue", "quorum_queue"}),
    "classic_queues": frozenset({"classic_queue"}),
    "quorum_queues": frozenset({"quorum_queue"}),
    "exchanges": frozenset({"exchange"}),
}
_KEYS: dict[str, Setting] = {
    **{name: setting for name, setting in SETTINGS.items() if setting.by_policy},
    "alternate-exchange": Setting("alternate_exchange", short_text),
    # RabbitMQ's keys for mirroring, streams and federation: they are accepted, so that definitions load, and ignored.
    **{
        name: Setting("", anything)
        for name in (
            "ha-mode",
            "ha-params",
            "ha-promote-on-failure",
            "ha-promote-on-shutdown",
            "ha-sync-batch-size",
            "ha-sync-mode",
            "federation-upstream",
            "federation-upstream-set",
            "initial-cluster-size",
            "max-age",
            "stream-max-segment-size-bytes",
            "target-group-size",
        )
    },
}
POLICY_KEYS = tuple(_KEYS)
# As in RabbitMQ operators can only set limits, and `overflow`, which says what happens at a limit.
OPERATOR_KEYS = tuple(
    name for name, setting in _KEYS.items() if setting.smaller_wins or not setting.field or name == "overflow"
)
_ARGUMENTS_ONLY = {name for name, setting in SETTINGS.items() if not setting.by_policy}


class Policy(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One policy; encoded, its keys are those of RabbitMQ's definitions files."""

    vhost: str
    name: str
    pattern: str
    definition: dict[str, Any]
    apply_to: ApplyTo = "all"
    priority: int = 0


class PolicyTable:
    """The policies and operator policies of all virtual hosts. After a change, ask for `effective` again.

    Of several matching policies the one with the highest priority counts, of equal ones the first by name.
    """

    __slots__ = ("_operator", "_user")

    def __init__(self) -> None:
        self._user: dict[str, list[tuple[Policy, re.Pattern[str]]]] = {}
        self._operator: dict[str, list[tuple[Policy, re.Pattern[str]]]] = {}

    def set(self, policy: Policy, *, operator: bool = False) -> None:
        """Add `policy`, or replace the one of its name. ValueError says in one line what is wrong with it."""
        pattern = checked(policy, operator=operator)
        table = self._operator if operator else self._user
        others = [pair for pair in table.get(policy.vhost, ()) if pair[0].name != policy.name]
        table[policy.vhost] = sorted([*others, (policy, pattern)], key=lambda pair: (-pair[0].priority, pair[0].name))

    def delete(self, vhost: str, name: str, *, operator: bool = False) -> bool:
        """Remove a policy; False if there is none of this name."""
        table = self._operator if operator else self._user
        before = table.get(vhost, [])
        after = [pair for pair in before if pair[0].name != name]
        if after:
            table[vhost] = after
        else:
            table.pop(vhost, None)
        return len(after) < len(before)

    def delete_vhost(self, vhost: str) -> None:
        self._user.pop(vhost, None)
        self._operator.pop(vhost, None)

    def list(self, vhost: str | None = None, *, operator: bool = False) -> list[Policy]:
        """All policies, or those of one virtual host, ordered by virtual host and name."""
        table = self._operator if operator else self._user
        hosts = sorted(table) if vhost is None else [vhost]
        found = [policy for host in hosts for policy, _ in table.get(host, ())]
        return sorted(found, key=lambda policy: (policy.vhost, policy.name))

    def matching(self, vhost: str, kind: Kind, name: str) -> tuple[Policy | None, Policy | None]:
        """The policy and the operator policy in force for the queue or exchange `name`."""
        return _first(self._user.get(vhost, ()), kind, name), _first(self._operator.get(vhost, ()), kind, name)

    def effective(self, vhost: str, kind: Kind, name: str) -> dict[str, Any]:
        """The merged settings in force: of two limits the smaller, else the operator's. Ignored keys are left out."""
        policy, operator = self.matching(vhost, kind, name)
        merged = dict(policy.definition) if policy is not None else {}
        for key, value in operator.definition.items() if operator is not None else ():
            if key in merged and _KEYS[key].smaller_wins:
                merged[key] = _smaller(merged[key], value)
            else:
                merged[key] = value
        return {key: value for key, value in merged.items() if _KEYS[key].field}


def checked(policy: Policy, *, operator: bool = False) -> re.Pattern[str]:
    """The policy's compiled pattern. ValueError says in one line what is wrong with the policy."""
    place = f"{'operator ' if operator else ''}policy '{value_text(policy.name)}' in vhost '{value_text(policy.vhost)}'"
    if not policy.name:
        raise ValueError(f"{place}: the name must not be empty")
    if policy.apply_to not in _APPLIES:
        raise ValueError(
            f"{place}: apply-to '{value_text(policy.apply_to)}' is unknown{_nearest(policy.apply_to, _APPLIES)}"
        )
    if not policy.definition:
        raise ValueError(f"{place}: the definition is empty, give at least one key such as max-length")
    for key, value in policy.definition.items():
        if key not in (OPERATOR_KEYS if operator else POLICY_KEYS):
            raise ValueError(f"{place}: {_why_not(key, operator)}")
        try:
            _KEYS[key].check(value)
        except ValueError as reason:
            raise ValueError(f"{place}: {key}: {reason}") from None
    try:
        return re.compile(policy.pattern)
    except re.error as problem:
        raise ValueError(
            f"{place}: pattern '{value_text(policy.pattern)}' is not a regular expression: {problem}"
        ) from None


def ignored_keys(definition: Mapping[str, Any]) -> list[str]:
    """The keys of a valid definition that have no effect in this broker: name them to the user once."""
    return sorted(key for key in definition if key in _KEYS and not _KEYS[key].field)


def _first(pairs: Any, kind: Kind, name: str) -> Policy | None:
    for policy, pattern in pairs:
        if kind in _APPLIES[policy.apply_to] and pattern.search(name) is not None:
            return policy  # type: ignore[no-any-return]
    return None


def _smaller(one: int, other: int) -> int:
    # -1 says "no limit" where it is allowed at all (delivery-limit).
    return max(one, other) if min(one, other) < 0 else min(one, other)


def _why_not(key: str, operator: bool) -> str:
    if key.removeprefix("x-") in _ARGUMENTS_ONLY:
        return f"{key} can only be an argument of queue.declare (x-{key.removeprefix('x-')})"
    if operator and key in _KEYS:
        return (
            f"{key} cannot be set by an operator policy, only {', '.join(k for k in OPERATOR_KEYS if _KEYS[k].field)}"
        )
    return f"{value_text(key)} is no policy key{_nearest(key.removeprefix('x-'), _KEYS)}"


def _nearest(word: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(word, known, n=1)
    return f", did you mean {near[0]}?" if near else f", known are {', '.join(k for k in known)}"
