"""`openclust exchanges`."""

from __future__ import annotations

import click

from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of

EXCHANGES = Noun(
    "exchanges",
    "/api/exchanges",
    "/api/exchanges/{vhost}",
    columns_of(
        "vhost",
        "name",
        "type",
        "durable",
        "message_stats.publish_in_details.rate in",
        "message_stats.publish_out_details.rate out",
        "auto_delete",
        "internal",
        "policy",
        "arguments",
    ),
)


@click.group()
def exchanges() -> None:
    """List exchanges."""


exchanges.add_command(list_command(EXCHANGES))
