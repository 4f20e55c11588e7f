"""`openclust consumers`."""

from __future__ import annotations

import click

from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of

CONSUMERS = Noun(
    "consumers",
    "/api/consumers",
    "/api/consumers/{vhost}",
    columns_of(
        "queue.vhost vhost",
        "queue.name queue",
        "consumer_tag tag",
        "channel_details.name channel",
        "channel_details.user user",
        "prefetch_count prefetch",
        "ack_required acks",
        "active",
        "exclusive",
        "channel_details.node node",
    ),
    name_paths=("queue.name", "consumer_tag"),
)


@click.group()
def consumers() -> None:
    """List consumers."""


consumers.add_command(list_command(CONSUMERS))
