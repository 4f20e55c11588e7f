"""`openclust topology new`: writes a first cluster file."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

import click

SECRET = "cluster.secret"
ZONES_MAX = 100
SECONDARIES_MAX = 100_000


@click.group()
def topology() -> None:
    """Make cluster files, for openclust start, lint and draw."""


@topology.command()
@click.option("--primaries", type=click.IntRange(1, 9), default=3, show_default=True, help="They elect the root.")
@click.option(
    "--secondaries", type=click.IntRange(0, SECONDARIES_MAX), default=0, show_default=True, help="They take clients."
)
@click.option("--zones", default="", metavar="A,B,C", help="Where the brokers go, by turns.")
@click.option(
    "--cluster-key", default="", metavar="KEY", help="Name of the cluster; made up of zones and domain without."
)
@click.option("--domain", default="example", show_default=True, metavar="NAME", help="What the host names end in.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it to this file, and beside it a secret if there is none.",
)
@click.option("--force", is_flag=True, help="Also where the file is there already.")
def new(
    primaries: int, secondaries: int, zones: str, cluster_key: str, domain: str, output: Path | None, force: bool
) -> int:
    """Write a cluster file with comments, that passes openclust lint."""
    from openclust.shell.config.load import FILE_BYTES_MAX
    from topology.model.template import Plan, text_of

    names = [each.strip() for each in zones.split(",") if each.strip()]
    if len(set(names)) < len(names) or len(names) > ZONES_MAX:
        raise click.UsageError(f"--zones wants each zone once, and {ZONES_MAX} at most")
    for option, text in (("--zones", zones), ("--cluster-key", cluster_key)):
        if not text.isprintable() or len(text.encode()) > 200:
            raise click.UsageError(f"{option} wants at most 200 bytes without control characters")
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,200}[A-Za-z0-9])?", domain):
        raise click.UsageError("--domain wants a domain name, such as brokers.example.net")
    plan = Plan(primaries=primaries, secondaries=secondaries, zones=names, cluster_key=cluster_key, domain=domain)
    text = text_of(plan, file=str(output or "cluster.toml"))
    if len(text.encode()) > FILE_BYTES_MAX:
        raise click.UsageError(
            f"the file would have more than the {FILE_BYTES_MAX // 1_048_576} MiB that are read: "
            "fewer --secondaries, or shorter names"
        )
    if output is None:
        click.echo(text, nl=False)
        return 0
    if output.exists() and not force:
        raise click.ClickException(f"{output} is there already; --force writes over it")
    output.write_text(text, encoding="utf-8")
    click.echo(f"{output}: written; change the addresses, then: openclust lint {output}")
    _write_secret(output.parent / SECRET)
    return 0


def _write_secret(path: Path) -> None:
    """Writes a secret that only its owner can read. An existing file stays as it is."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")
    click.echo(f"{path}: written; copy it to all brokers, and keep it out of repositories")
