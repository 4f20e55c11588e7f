"""`openclust channels`."""

from __future__ import annotations

import click

from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of

CHANNELS = Noun(
    "channels",
    "/api/channels",
    "/api/vhosts/{vhost}/channels",
    columns_of(
        "name",
        "user",
        "vhost",
        "state",
        "consumer_count consumers",
        "messages_unacknowledged unacked",
        "messages_unconfirmed unconfirmed",
        "prefetch_count prefetch",
        "message_stats.publish_details.rate in",
        "message_stats.deliver_get_details.rate out",
        "confirm",
        "transactional",
        "node",
    ),
)


@click.group()
def channels() -> None:
    """List channels."""


channels.add_command(list_command(CHANNELS))
