"""`openclust bench cluster`: the targets of a cluster, measured with local clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from openclust.cli.bench.local_bench_cluster import local_clusters
from openclust.cli.bench.options import compare_checkout_option, data_in_option
from openclust.cli.exit_codes import FAILED, NO, CommandFailure
from openclust.cli.term import show_structs, wide_console


def _int(default: int, text: str) -> dict[str, Any]:
    return {"type": click.IntRange(1), "default": default, "show_default": True, "help": text}


@click.command("cluster")
@click.option("--only", metavar="ROW,ROW...", help="Some rows only.  [default: all]")
@click.option("--rounds", **_int(3, "Rounds at the cluster and at the single broker; times `up` is started."))
@click.option("--seconds", type=click.FloatRange(0.01), default=3.0, show_default=True, help="Length of a round.")
@click.option("--warm-up", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds before the first.")
@click.option("--size", type=click.IntRange(0, 60_000), default=100, show_default=True, help="Body bytes.")
@click.option("--subscribers", **_int(1_000, "Subscribers of the fan-out, over three brokers."))
@click.option("--window", **_int(100, "Messages of the fan-out in flight."))
@click.option("--bindings", **_int(100_000, "Private bindings of the broker that joins."))
@click.option("--crowd", **_int(50_000, "Subscribers that are attached at once, over six brokers."))
@click.option("--per-connection", **_int(1, "Subscribers of the crowd that share a connection."))
@click.option("--messages", **_int(10, "Messages to the crowd, one after another."))
@click.option("--unconfirmed", **_int(200, "Messages without their confirm, of the replicated queue."))
@click.option("--prefetch", **_int(200, "Deliveries not yet acknowledged, of the replicated queue."))
@click.option("--rate", type=click.FloatRange(1), default=5_000.0, show_default=True, help="Messages/s, for rejoin.")
@click.option("--down", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Seconds, for rejoin.")
@click.option(
    "--compare",
    multiple=True,
    metavar="NAME=URL,URL,URL",
    help="Three brokers of another cluster, for the replicated queue: RabbitMQ's is a quorum queue.",
)
@compare_checkout_option(
    "The openclust in DIR, for fan-out, shared and replicated queue: a cluster of the same size beside ours."
)
@click.option("--starts", **_int(1, "Starts of these clusters. The ratios are medians."))
@data_in_option()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--check", is_flag=True, help="Exit with 1 when a target is missed.")
def cluster(
    only: str | None,
    as_json: bool,
    check: bool,
    compare: tuple[str, ...],
    compare_checkout: Path | None,
    data_in: Path | None,
    **options: Any,
) -> int:
    """Start local clusters, measure them against one broker, and show what is wanted beside what was found."""
    from openclust.bench.brokers.bench_cluster import BenchVersion, ClusterBenchOptions
    from openclust.bench.brokers.checkout import Checkout
    from openclust.bench.brokers.disk import described, folder_on_disk
    from openclust.bench.client.bench_errors import BenchError
    from openclust.bench.client.url import parse_named_urls
    from openclust.bench.report.progress_bar import progress
    from openclust.bench.rows.cluster_row import rows_data, show_rows
    from openclust.bench.rows.cluster_rows import ROWS, measure

    keys = [key.strip() for key in only.split(",")] if only else list(ROWS)
    for key in keys:
        if key not in ROWS:
            raise click.UsageError(f"--only: there is no row {key!r}; there are {', '.join(ROWS)}")

    try:
        folder = folder_on_disk(data_in)
        checkout = Checkout(compare_checkout) if compare_checkout else None
        bench_options = ClusterBenchOptions(
            **options,
            compare=tuple(parse_named_urls(text) for text in compare),
            other_version=BenchVersion(checkout.name, local_clusters(folder, checkout)) if checkout else None,
        )
    except BenchError as error:
        raise CommandFailure(str(error)) from None

    with progress(len(keys)) as watcher:
        rows = [row for key in keys for row in measure(key, bench_options, local_clusters(folder), watcher)]
    if as_json:
        show_structs({**rows_data(rows), "data_in": str(folder)})
    else:
        show_rows(rows, wide_console(200))
        click.echo(described(folder))
    if any(row.failed for row in rows):
        return FAILED
    return NO if check and any(row.met is False for row in rows) else 0
