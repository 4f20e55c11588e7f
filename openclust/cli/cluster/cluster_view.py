"""What a broker says of its cluster at `/api/cluster`, for the commands that show it."""

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
    """One broker as the one that was asked knows it. What has no value was never heard, or is not its to have."""

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
    """One link of the broker that was asked: what it sent, has yet to send, and could not send.

    `lag_entries` is how many entries of the log the peer is behind, and `lag_on_disk_entries` how many it has yet to
    bring to its disk; only the root knows.
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
    """How far the log is on disk, and how the disk is. Only the root knows what is committed."""

    has_disk: bool
    on_disk: PositionView
    committed: PositionView | None = None
    uncommitted_entries: int | None = None
    uncommitted_bytes: int | None = None
    waiting_bytes: int = 0
    illness: str = ""


class MetaBindingCounts(msgspec.Struct):
    """Interest of private queues: of other brokers as held here, of this one as told to them, and mended."""

    held: int | None = None
    told: int | None = None
    repaired: int | None = None


class RatesView(msgspec.Struct):
    published_per_s: float | None = None
    delivered_per_s: float | None = None
    relayed_per_s: float | None = None


class VotesView(msgspec.Struct):
    """Of the defined primaries: who has voted for the root, who follows it, and who may vote at this time."""

    given: int
    electorate: int
    defined: int
    following: int | None = None


class ObstacleView(msgspec.Struct):
    """Who stands in the way of a root, and why."""

    peer: str
    reason: str


class NotReady(msgspec.Struct):
    """What stands against sending clients there."""

    check: str
    reason: str


class PublishersView(msgspec.Struct):
    """Whether those who publish at the broker that was asked wait, why, and how many do."""

    is_blocked: bool = False
    reason: str = ""
    waiting: int = 0


class ClusterView(msgspec.Struct):
    """What a later version says beyond this is left out. Secondaries have no votes."""

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
    """The view of the broker behind `client`, and the JSON that it came as. click's errors where there is none."""
    status, document = client.call("GET", "/api/cluster")
    if status == 404:
        raise click.ClickException(f"the broker at {client.base} knows of no cluster: it is another product or older")
    if status != 200:
        raise click.ClickException(client.refusal(status, document))
    try:
        return msgspec.convert(document, ClusterView), document
    except msgspec.ValidationError as error:
        raise click.ClickException(f"{client.base} says what this version does not understand: {error}") from None
