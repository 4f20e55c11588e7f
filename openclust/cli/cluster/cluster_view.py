"""A broker's view of its cluster, from `/api/cluster`, for the commands that show it."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from openclust.cli.http_client import HttpClient

WAIT_S = 10.0


class Vote(msgspec.Struct):
    epoch: int
    root: str


class BrokerView(msgspec.Struct):
    """A broker as the asked one knows it. A field without a value was never heard, or does not apply to the broker."""

    name: str
    role: str
    online: bool
    partition: str = "primary"
    address: str = ""
    http: str = ""
    seniority_ms: int | None = None
    vote: Vote | None = None
    heard_ms_ago: int | None = None
    connections: int | None = None
    queues: int | None = None
    is_draining: bool = False
    disk: str | None = None
    is_blocked: bool = False


class LinkView(msgspec.Struct):
    """A link of the asked broker: its messages that are sent, that wait, and that could not be sent.

    `lag_entries` is the number of log entries that the peer is behind, and `lag_on_disk_entries` the number that are
    not on its disk yet; only the root knows these.
    """

    peer: str
    state: str
    error: str = ""
    sent: int = 0
    waiting: int = 0
    dropped: int = 0
    waiting_bytes: int | None = None
    relayed: int | None = None
    lag_entries: int | None = None
    lag_on_disk_entries: int | None = None


class PositionView(msgspec.Struct):
    """The end of a broker's log."""

    epoch: int
    sequence: int


class StoreView(msgspec.Struct):
    """The end of the log on disk, and the state of the disk. Only the root knows the committed end."""

    has_disk: bool
    on_disk: PositionView
    committed: PositionView | None = None
    uncommitted_entries: int | None = None
    uncommitted_bytes: int | None = None
    waiting_bytes: int = 0
    illness: str = ""


class MetaBindingCounts(msgspec.Struct):
    """Counts of meta-bindings: of other brokers held here, of this broker at the others, and repaired ones."""

    held: int | None = None
    told: int | None = None
    repaired: int | None = None


class RatesView(msgspec.Struct):
    published_per_s: float | None = None
    delivered_per_s: float | None = None
    relayed_per_s: float | None = None


class VotesView(msgspec.Struct):
    """The primaries that are defined, that voted for the root, that follow it, and that may vote at this time."""

    given: int
    electorate: int
    defined: int
    following: int | None = None


class ObstacleView(msgspec.Struct):
    """A broker that stands in the way of a root, and the reason."""

    peer: str
    reason: str


class NotReady(msgspec.Struct):
    """A reason not to send clients to the broker."""

    check: str
    reason: str


class PublishersView(msgspec.Struct):
    """Whether publishers at the asked broker have to wait, the reason, and their number."""

    is_blocked: bool = False
    reason: str = ""
    waiting: int = 0


class ClusterView(msgspec.Struct):
    """The whole view. Fields of later versions are left out. Secondaries have no votes."""

    cluster_key: str
    name: str
    role: str
    root: str | None
    epoch: int
    votes: VotesView | None
    why_no_root: list[ObstacleView]
    brokers: list[BrokerView]
    links: list[LinkView]
    connections: int
    queues: int
    cluster_uuid: str | None = None
    position: PositionView | None = None
    store: StoreView | None = None
    meta_bindings: MetaBindingCounts | None = None
    rates: RatesView | None = None
    votes_needed: int | None = None
    is_ready: bool | None = None
    not_ready: list[NotReady] = []
    publishers: PublishersView | None = None


def ask(client: HttpClient) -> tuple[ClusterView, Any]:
    """Asks the broker behind `client`: returns its view, and the JSON of it. Raises click's errors if none answers."""
    status, document = client.call("GET", "/api/cluster")
    if status == 404:
        raise click.ClickException(f"the broker at {client.base} knows of no cluster: it is another product or older")
    if status != 200:
        raise click.ClickException(client.refusal(status, document))
    try:
        return msgspec.convert(document, ClusterView), document
    except msgspec.ValidationError as error:
        raise click.ClickException(f"{client.base} says what this version does not understand: {error}") from None
