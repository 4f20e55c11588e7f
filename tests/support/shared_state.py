"""What brokers share, for tests to compare: all at once, where the cluster itself takes it in parts."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from openclust.broker.model.change_codec import encode_canonical
from openclust.broker.model.changes import Change
from openclust.broker.server.broker import Broker
from openclust.cluster.definitions.name_collisions import NameCollisions
from openclust.cluster.definitions.reconciliation import Reconciliation
from openclust.cluster.definitions.state import state_in_passing
from openclust.cluster.definitions.target_state import TargetState


def shared_state(broker: Broker) -> list[Change]:
    return list(state_in_passing(broker))


def digest(changes: Iterable[Change]) -> str:
    """A short fingerprint: equal for equal states, in whatever order their changes and arguments come."""
    each = sorted(blake2b(encode_canonical(change), digest_size=16).digest() for change in changes)
    return blake2b(b"".join(each), digest_size=8).hexdigest()


def reconcile(broker: Broker, wanted: Iterable[Change]) -> int:
    """Make the shared state of `broker` what `wanted` builds, with the fewest changes; how many those were."""
    state = TargetState()
    for change in wanted:
        state.add(change)
    work = Reconciliation(broker, state, NameCollisions(broker))
    for _ in work.steps():
        pass
    return work.made
