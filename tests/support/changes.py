"""Hypothesis strategies for changes to what a cluster shares: any that can be said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from openclust.broker.model.access import Permission, TopicPermission, User
from openclust.broker.model.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteGlobalParameter,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermissions,
    DeleteUser,
    DeleteVhost,
    KeepOnly,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
    Unbind,
)
from openclust.broker.model.policy import Policy
from tests.support.wire import tables, texts


def _made(kind: Callable[..., Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    # Not st.builds: it would look up the annotation of a table, which names types of another module.
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


_names = texts()
_flags = st.booleans()
_permissions = _made(Permission, configure=_names, write=_names, read=_names)
_topic_permissions = _made(TopicPermission, write=_names, read=_names)
_limits = st.integers(-(2**31), 2**63 - 1)
_users = _made(
    User,
    name=_names,
    password_hash=_names,
    type=st.sampled_from(("normal", "console", "cluster")),
    tags=st.lists(_names, max_size=3).map(tuple),
    permissions=st.dictionaries(texts(300), _permissions, max_size=3),
    topic_permissions=st.dictionaries(
        texts(300), st.dictionaries(texts(300), _topic_permissions, min_size=1, max_size=2), max_size=2
    ),
    limits=st.dictionaries(st.sampled_from(("max-channels", "max-connections")), _limits),
)
_policies = _made(
    Policy,
    vhost=_names,
    name=_names,
    pattern=_names,
    definition=tables,
    apply_to=st.sampled_from(("all", "queues", "classic_queues", "quorum_queues", "exchanges")),
    priority=st.integers(-(2**31), 2**31 - 1),
)
_ends: dict[str, st.SearchStrategy[Any]] = {
    "vhost": _names,
    "source": _names,
    "destination": _names,
    "to_exchange": _flags,
    "routing_key": _names,
    "arguments": tables,
}
_kept: dict[str, st.SearchStrategy[Any]] = {"durable": _flags, "auto_delete": _flags, "arguments": tables}

any_change: st.SearchStrategy[Change] = st.one_of(
    _made(PutVhost, vhost=_names, metadata=tables),
    _made(DeleteVhost, vhost=_names),
    _made(DeclareExchange, vhost=_names, name=_names, type=_names, internal=_flags, **_kept),
    _made(DeleteExchange, vhost=_names, name=_names, if_unused=_flags),
    _made(DeclareQueue, vhost=_names, name=_names, **_kept),
    _made(DeleteQueue, vhost=_names, name=_names, if_unused=_flags, if_empty=_flags),
    _made(Bind, **_ends),
    _made(Unbind, **_ends),
    _made(PutPolicy, vhost=_names, policy=_policies, operator=_flags),
    _made(DeletePolicy, vhost=_names, name=_names, operator=_flags),
    _made(PutUser, user=_users),
    _made(DeleteUser, name=_names),
    _made(KeepOnly, users=st.lists(_names, max_size=3).map(tuple), vhosts=st.lists(texts(300), max_size=3).map(tuple)),
    _made(PutPermission, vhost=_names, user=_names, permission=_permissions),
    _made(DeletePermission, vhost=_names, user=_names),
    _made(PutTopicPermission, vhost=_names, user=_names, exchange=_names, permission=_topic_permissions),
    _made(DeleteTopicPermissions, vhost=_names, user=_names),
    _made(PutUserLimit, user=_names, name=_names, value=st.none() | _limits),
    _made(PutVhostLimit, vhost=_names, name=_names, value=st.none() | _limits),
    _made(PutParameter, vhost=_names, component=_names, name=_names, value=_names),
    _made(DeleteParameter, vhost=_names, component=_names, name=_names),
    _made(PutGlobalParameter, name=_names, value=_names),
    _made(DeleteGlobalParameter, name=_names),
)
