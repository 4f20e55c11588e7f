"""`openclust store`: looks at, checks and compacts the store of a stopped broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from openclust.cli.exit_codes import DONE
from openclust.cli.term import show_json, show_table
from openclust.shell.config.schema import ConfigError
from openclust.shell.host.event_log import escape

if TYPE_CHECKING:
    from openclust.broker.journal.store_rows import Contents
    from openclust.shell.store.inspection import Inside

DAMAGED = 1
LINES_SHOWN_MAX = 1_000

directory = click.argument("data_dir", metavar="DIR")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def store() -> None:
    """Look at, check or compact the store in a broker's data directory DIR.

    Stop the broker first; only inspect works beside a running one.
    """


@store.command()
@directory
@json_option
def inspect(data_dir: str, as_json: bool) -> int:
    """Show whose store is in DIR, its place in the log, and how much it holds. Changes nothing.

    Messages that came since the last checkpoint are in rows, and counted there, not by queue.
    """
    import msgspec

    from openclust.shell.store.inspection import inspect as look
    from openclust.shell.store.lock import holder_of

    inside = look(data_dir)
    vote = _vote(data_dir)
    process = holder_of(data_dir)
    if as_json:
        show_json({**msgspec.to_builtins(inside), "vote": vote, "process": process or None})
        return DONE
    _show(inside)
    click.echo(f"vote        {escape(vote or 'none')}")
    click.echo(f"in use by   {f'process {escape(process)}' if process else 'nobody'}")
    return DONE


@store.command()
@directory
@json_option
def verify(data_dir: str, as_json: bool) -> int:
    """Read all that the store in DIR holds, and name whatever is damaged.

    Exit code 0 where all is as it was written, 1 where something is not, 2 where it could not be checked.
    """
    from openclust.shell.store.inspection import verify as check

    damage: list[str] = []
    contents = check(data_dir, damage.append)
    if as_json:
        show_json({"is_sound": not damage, "damage": damage})
    else:
        for line in damage[:LINES_SHOWN_MAX]:
            click.echo(f"damaged: {escape(line)}")
        if len(damage) > LINES_SHOWN_MAX:
            click.echo(f"damaged: {len(damage) - LINES_SHOWN_MAX} more")
        click.echo(_verdict(data_dir, contents, damage))
    return DAMAGED if damage else DONE


@store.command()
@directory
def compact(data_dir: str) -> int:
    """Write the store in DIR anew without what is free in it. Needs as much room as it holds, for a while."""
    from openclust.shell.store.inspection import compact as vacuum

    before, after = vacuum(data_dir)
    click.echo(f"Compacted {escape(data_dir)}: {before:,} bytes before, {after:,} after.")
    return DONE


def _vote(data_dir: str) -> str | None:
    """The vote on disk in words. A damaged vote is reported here, so that the command shows the rest."""
    from openclust.shell.cluster.votes import Votes

    try:
        vote = Votes(data_dir).last
    except ConfigError as error:
        return str(error)
    return f"{vote.root} in epoch {vote.epoch}" if vote is not None else None


def _show(inside: Inside) -> None:
    uuid = f" ({escape(inside.uuid)})" if inside.uuid else ""
    click.echo(f"cluster     {escape(inside.cluster_key)}{uuid}")
    click.echo(f"broker      {escape(inside.name)}")
    click.echo(f"checkpoint  sequence {inside.sequence} of epoch {inside.epoch}, {inside.definitions} definitions")
    click.echo(f"log         up to sequence {inside.last_sequence} of epoch {inside.last_epoch}")
    click.echo(
        f"file        {inside.file_bytes:,} bytes, {inside.free_bytes:,} of them free; "
        f"{inside.log_bytes:,} bytes in its log of writes"
    )
    if inside.rows:
        click.echo("")
        show_table(
            ("ROWS", "OF KIND", "BYTES", ""),
            [
                (row.rows, row.kind, f"{row.bytes:,}", "told by the checkpoint" if row.is_told else "since then")
                for row in inside.rows
            ],
        )
    if inside.queues:
        click.echo("")
        show_table(
            ("VHOST", "QUEUE", "PAGES", "MESSAGES", "BYTES"),
            [(each.vhost, each.queue, each.pages, each.messages, f"{each.bytes:,}") for each in inside.queues],
        )
    click.echo("")


def _verdict(data_dir: str, contents: Contents | None, damage: list[str]) -> str:
    if damage:
        return (
            f"{escape(data_dir)} is damaged. In a cluster move it away and start the broker without it: the others "
            "bring it up to date. A broker of one needs a copy of the directory."
        )
    assert contents is not None, "what cannot be read is damage"
    return (
        f"{escape(data_dir)} is sound: {len(contents.definitions)} definitions, {len(contents.pages)} pages, "
        f"{len(contents.rows)} rows."
    )
