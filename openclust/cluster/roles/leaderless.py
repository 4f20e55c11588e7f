"""A broker that knows of no root."""

from __future__ import annotations

from openclust.cluster.roles.role import Role


class Leaderless(Role):
    """Private queues go on; requests, messages for shared queues and their consumers wait for the next root."""
