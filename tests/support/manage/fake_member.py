"""A broker's place in a cluster that a test makes up."""

from __future__ import annotations

import copy
import functools
from typing import Any, NamedTuple

import msgspec

from openclust.cluster.protocol.outbox import Outbox
from openclust.shell.cluster.cluster_snapshot import cluster_snapshot
from openclust.shell.server import Server
from openclust.shell.tracing.rates import Rates
from tests.support.cluster.joined import Joined
from tests.support.manage.running_api import RunningApi


class FakeMember:
    """Says what it is told to say, and remembers why it was told to step down. It can only be asked."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self._snapshot = snapshot
        self.reasons: list[str] = []
        self.forced = 0
        self.links: dict[str, object] = {}

    def snapshot(self) -> dict[str, Any]:
        return self._snapshot

    def written(self) -> None:
        """Nobody traces."""

    def force_root(self) -> bool:
        if self._snapshot["role"] != "elector":
            return False
        self.forced += 1
        self._snapshot |= {"role": "root", "root": self._snapshot["name"], "epoch": self._snapshot["epoch"] + 1}
        return True

    def step_down(self, reason: str) -> bool:
        if self._snapshot["role"] != "root":
            return False
        self.reasons.append(reason)
        return True


def put_member(api: RunningApi, **changed: Any) -> FakeMember:
    """Have the broker's API show three primaries, of which p1 is root and is asked, but for what is changed."""
    member = FakeMember(seen_by_root() | changed)

    def put(server: Server) -> None:
        real = server.member
        server.member = member  # type: ignore[assignment]
        # It is stopped with the broker, and asked at every turn.
        for name in ("look", "membership", "send", "stop"):
            setattr(member, name, getattr(real, name))

    api.on_loop(put)
    return member


class IdleLink(NamedTuple):
    """What a snapshot looks at in a link, without a socket."""

    outbox: Outbox
    state: str = "connected"
    error: str = ""

    @property
    def peer(self) -> str:
        return self.outbox.peer


def seen_by_root() -> dict[str, Any]:
    """The snapshot of a real root of three primaries and a secondary, with values that a test can expect."""
    return copy.deepcopy(_seen_by_root())


@functools.cache
def _seen_by_root() -> dict[str, Any]:
    cluster = Joined("p1", "p2", "p3", secondaries=("s1",))
    membership = cluster["p1"]
    links = {peer: IdleLink(outbox) for peer, outbox in membership.links.outboxes.items()}
    seen = cluster_snapshot(membership, links, Rates(membership), cluster.now_ms)  # type: ignore[arg-type]
    real = msgspec.to_builtins(seen)
    return _with_values(real, msgspec.json.decode(_VALUES))


def _with_values(real: Any, made_up: Any) -> Any:
    """The real snapshot with the values that are made up. It must have a place for each of these."""
    if isinstance(real, dict) and isinstance(made_up, dict):
        unknown = made_up.keys() - real.keys()
        assert not unknown, f"no snapshot says {sorted(unknown)}"
        return {key: _with_values(real[key], made_up[key]) if key in made_up else real[key] for key in real}
    if isinstance(made_up, list) and any(isinstance(each, dict) for each in made_up):
        return [_with_values(one, other) for one, other in zip(real, made_up, strict=True)]
    return made_up


_VALUES = """
{
  "cluster_key": "demo", "cluster_uuid": "c0ffee", "name": "p1", "role": "root", "root": "p1", "epoch": 3,
  "seniority_ms": 1700000000123, "position": {"epoch": 3, "sequence": 1042},
  "store": {"has_disk": true, "on_disk": {"epoch": 3, "sequence": 1042}, "committed": {"epoch": 3, "sequence": 1040},
            "uncommitted_entries": 2, "uncommitted_bytes": 1200, "waiting_bytes": 0, "waiting_bytes_max": 67108864,
            "is_well": true, "illness": ""},
  "votes": {"given": 2, "following": 3, "electorate": 3, "defined": 3}, "votes_needed": 2,
  "is_ready": true, "not_ready": [], "publishers": {"is_blocked": false, "reason": "", "waiting": 0},
  "why_no_root": [],
  "brokers": [
    {"name": "p1", "partition": "primary", "role": "root", "online": true,
     "address": "127.0.0.1:5672", "http": "http://127.0.0.1:15672",
     "seniority_ms": 1700000000123, "vote": {"epoch": 3, "root": "p1"}, "heard_ms_ago": 0,
     "connections": 4, "queues": 2, "is_draining": false, "disk": "well"},
    {"name": "p2", "partition": "primary", "role": "backup", "online": true,
     "address": "127.0.0.1:5673", "http": "http://127.0.0.1:15673",
     "seniority_ms": 1700000000456, "vote": {"epoch": 3, "root": "p1"}, "heard_ms_ago": 42,
     "connections": 3, "queues": 0, "is_draining": true, "disk": "No space left on device"},
    {"name": "p3", "partition": "primary", "role": "never heard", "online": false,
     "address": "127.0.0.1:5674", "http": "",
     "seniority_ms": null, "vote": null, "heard_ms_ago": null,
     "connections": null, "queues": null, "is_draining": false, "disk": null},
    {"name": "s1", "partition": "secondary", "role": "secondary", "online": true,
     "address": "127.0.0.1:5675", "http": "http://127.0.0.1:15675",
     "seniority_ms": null, "vote": null, "heard_ms_ago": 7100,
     "connections": 1, "queues": 12, "is_draining": false, "disk": null}
  ],
  "links": [
    {"peer": "p2", "state": "connected", "error": "", "sent": 17, "dropped": 0,
     "waiting": 0, "waiting_bytes": 0, "relayed": 5, "lag_entries": 0, "lag_on_disk_entries": 2},
    {"peer": "p3", "state": "connecting", "error": "Connection refused", "sent": 0, "dropped": 5,
     "waiting": 2, "waiting_bytes": 1640000, "relayed": 0, "lag_entries": null, "lag_on_disk_entries": null},
    {"peer": "s1", "state": "connected", "error": "", "sent": 9, "dropped": 0,
     "waiting": 3, "waiting_bytes": 950, "relayed": 0, "lag_entries": 31, "lag_on_disk_entries": 31}
  ],
  "connections": 4, "queues": 2,
  "meta_bindings": {"held": 40, "told": 2, "repaired": 1},
  "rates": {"published_per_s": 1204.4, "delivered_per_s": 3.46, "relayed_per_s": 0}
}
"""
