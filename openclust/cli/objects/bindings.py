"""`openclust bindings`."""

from __future__ import annotations

import click

from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of

BINDINGS = Noun(
    "bindings",
    "/api/bindings",
    "/api/bindings/{vhost}",
    columns_of("vhost", "source", "routing_key", "destination", "destination_type type", "arguments"),
    name_paths=("source", "destination", "routing_key"),
)


@click.group()
def bindings() -> None:
    """List bindings."""


bindings.add_command(list_command(BINDINGS))
