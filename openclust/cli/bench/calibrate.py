"""`openclust bench --calibrate FILE`: measures a broker's costs on this machine, for `openclust simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from openclust.cli.bench.local_bench_cluster import local_clusters
from openclust.cli.bench.options import data_in_option
from openclust.cli.exit_codes import CommandFailure
from openclust.cli.term import show_structs, wide_console

if TYPE_CHECKING:
    from openclust.bench.calibration.calibrating import Calibrated


@click.command("calibrate")
@click.argument("out", type=click.Path(dir_okay=False, writable=True, path_type=Path), metavar="FILE")
@data_in_option()
@click.option("--quick", is_flag=True, help="In some seconds, and rough: to see that it works.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def calibrate(out: Path, data_in: Path | None, quick: bool, as_json: bool) -> None:
    """Measure what a broker costs on this machine, and write it to FILE for `simulate --calibration FILE`.

    It takes about four minutes, starts the brokers that it needs, and leaves nothing but the file.
    """
    from openclust.bench.brokers.disk import described, folder_on_disk
    from openclust.bench.calibration.calibrating import PARTS, document
    from openclust.bench.calibration.calibrating import calibrate as measure
    from openclust.bench.calibration.parts import QUICK, Effort
    from openclust.bench.client.bench_errors import BenchError
    from openclust.bench.report.progress_bar import progress

    try:
        out.touch()  # A file that cannot be written is reported now, not minutes later.
        folder = folder_on_disk(data_in)
        with progress(PARTS) as watcher:
            found = measure(local_clusters(folder), folder, QUICK if quick else Effort(), watcher)
        written = document(found.costs)
        out.write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n")
    except BenchError as error:
        raise CommandFailure(str(error)) from None
    except OSError as error:
        raise CommandFailure(f"{out}: {error.strerror}") from None
    if as_json:
        data = {"calibration": written, "rows": found.rows, "error": found.error, "file": str(out)}
        show_structs(data)
        return
    _show(found, written)
    click.echo(f"{described(folder)}\nwritten to {out}")


def _show(found: Calibrated, written: dict[str, object]) -> None:
    from rich.table import Table

    console = wide_console(120)
    rows = Table("work", "measured, us", "by the costs, us", "error", title="What was measured, CPU of one broker")
    costs = Table("cost", "found", title=str(written["machine"]))
    for table, numbers in ((rows, (1, 2, 3)), (costs, (1,))):
        for number in numbers:
            table.columns[number].justify = "right"
    for row in found.rows:
        rows.add_row(row.name, f"{row.measured_us:,.1f}", f"{row.fitted_us:,.1f}", f"{row.error:+.1%}")
    for name, value in written.items():
        if name not in ("machine", "measured", "version"):
            costs.add_row(name, f"{value:,}")
    console.print(rows)
    console.print(costs)
    console.print(f"error of the rows, root mean square: {found.error:.1%}")
