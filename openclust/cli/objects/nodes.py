"""`openclust nodes`."""

from __future__ import annotations

import click

from openclust.cli.listing.listing import list_command
from openclust.cli.listing.noun import Noun, columns_of

NODES = Noun(
    "nodes",
    "/api/nodes",
    "",
    columns_of(
        "name",
        "running",
        "uptime",
        "mem_used memory",
        "mem_limit limit",
        "mem_alarm",
        "disk_free",
        "disk_free_alarm",
        "fd_used files",
        "sockets_used sockets",
        "being_drained draining",
        "type",
        "partitions",
    ),
)


@click.group()
def nodes() -> None:
    """List brokers, with their memory, disk and files."""


nodes.add_command(list_command(NODES))
