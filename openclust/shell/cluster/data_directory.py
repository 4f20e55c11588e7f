"""Checks that a data directory is complete and this broker's own, before the broker starts.

A broker that has voted, or was in a cluster, had a store. If it started without that store, it would count among the
primaries that hold confirmed messages, and hold none. A broker with another broker's directory could vote a second
time in one epoch, in the other's name.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from openclust.shell.cluster.cluster_uuid_file import UUID_FILE
from openclust.shell.cluster.last_primaries import last_primaries
from openclust.shell.cluster.votes import VOTE_FILE, Votes
from openclust.shell.config.schema import ConfigError
from openclust.shell.store.store_schema import STORE_FILE

if TYPE_CHECKING:
    from openclust.shell.config.schema import Config

log = logging.getLogger("openclust.store")

VOTED = "voted"
"""A note in the store that this broker has voted: from then on the file of the vote must be there too."""

BEGIN_ANEW = (
    "in a cluster, while the other primaries run and have a root, move the directory away and start this broker "
    "without it: they bring it up to date"
)


def check_owner(config: Config, data_dir: str, meta: dict[str, str] | None) -> dict[str, str]:
    """`meta` are the store's notes, None if there is no store. Returns further notes for it, or raises ConfigError."""
    has_voted = os.path.exists(os.path.join(data_dir, VOTE_FILE))
    if meta is None:
        _refuse_lost_store(data_dir, has_voted=has_voted)
        return {}
    _refuse_other_owner(config, data_dir, meta.get("name", ""))
    if not has_voted and VOTED in meta:
        raise ConfigError(
            f"{data_dir}: the vote is lost: {VOTE_FILE} is gone, and without it this broker could vote twice in one "
            f"epoch; put {VOTE_FILE} back, or {BEGIN_ANEW}"
        )
    return {VOTED: "yes"} if has_voted else {}


def _refuse_lost_store(data_dir: str, *, has_voted: bool) -> None:
    if has_voted:
        vote = Votes(data_dir).last
        witness = f"{VOTE_FILE} holds a vote in epoch {vote.epoch if vote else 0}"
    elif os.path.exists(os.path.join(data_dir, UUID_FILE)):
        witness = f"{UUID_FILE} says that this broker was in a cluster"
    else:
        return
    raise ConfigError(
        f"{data_dir}: the store is lost: {STORE_FILE} is gone or empty, but {witness}; put {STORE_FILE} back from a "
        f"copy, or {BEGIN_ANEW}; a broker of one has lost what it kept, and begins anew in an empty directory"
    )


def _refuse_other_owner(config: Config, data_dir: str, owner: str) -> None:
    """A broker of one may have another name than before, and so may a primary whose old name is on the list no more."""
    cluster = config.cluster
    if not owner or owner == config.name or not (cluster.primaries or cluster.join):
        return
    before = last_primaries(data_dir)
    was_primary = len(before) > 1 and owner in before
    if owner in cluster.primaries or (cluster.join and was_primary):
        raise ConfigError(
            f"{data_dir}: is the directory of the primary {owner!r}, with its vote and its log, and this broker is "
            f"{config.name!r}; start it with --name {owner}, or give {config.name!r} a directory of its own "
            "(--data-dir)"
        )
    if was_primary:
        log.warning(
            "%s was the directory of the primary %s: this broker goes on with its vote and log", data_dir, owner
        )
