"""Policies as rows."""

from __future__ import annotations

import msgspec

from openclust.broker.model.policy import Policy
from openclust.manage.gather.selection import Row


def policy_row(policy: Policy) -> Row:
    shown: Row = msgspec.to_builtins(policy)
    return shown
