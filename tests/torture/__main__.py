"""Run real brokers through faults of all kinds, and count every message, as in `--minutes 20 --seed 1`.

Exit code 0: no confirmed message was lost, and all came in order. Needs root, for network namespaces and small disks.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
from _pytest.outcomes import OutcomeException

from tests.support.cluster.cut_network import check_tools
from tests.torture.faults import KINDS
from tests.torture.interruption import Interruption
from tests.torture.leftovers import clear_leftovers
from tests.torture.report import document, table
from tests.torture.run import Plan, Run

FINE, FAILED, CANNOT = 0, 1, 2


def main() -> int:
    args = _arguments()
    interruption = Interruption()
    interruption.install()
    try:
        check_tools()
    except OutcomeException as missing:
        print(f"the torture run {missing}", file=sys.stderr)
        return CANNOT
    cleared = clear_leftovers()
    if cleared:
        print(f"removed what an earlier run left: {', '.join(cleared)}", file=sys.stderr)
    folder = args.folder or Path(tempfile.mkdtemp(prefix=f"openclust-torture-{os.getpid()}-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {args.seed}, logs in {folder}", file=sys.stderr, flush=True)
    plan = Plan(args.seed, args.seconds or args.minutes * 60, args.faults, args.drain_seconds, args.quiet)
    try:
        verdict = Run(plan, folder.resolve(), interruption).go()
    except Exception:
        # Ctrl-C ends what we have just started, too.
        interruption.check()
        raise
    (folder / "verdict.json").write_bytes(msgspec.json.format(msgspec.json.encode(document(verdict))))
    if args.json:
        print(msgspec.json.encode(document(verdict)).decode())
    else:
        print(table(verdict))
    if verdict.is_fine and not args.folder:
        shutil.rmtree(folder, ignore_errors=True)
    return FINE if verdict.is_fine else FAILED


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="minutes of faults (%(default)s)")
    parser.add_argument("--seconds", type=float, help="the same, in seconds")
    parser.add_argument("--seed", type=int, default=random.randrange(100_000), help="default: a random one")
    parser.add_argument(
        "--faults", type=_kinds, default=list(KINDS), metavar="KIND,...", help=f"kinds of faults, of {','.join(KINDS)}"
    )
    parser.add_argument(
        "--drain-seconds", type=float, default=60.0, help="time for all messages to arrive after the last fault"
    )
    parser.add_argument(
        "--folder", type=Path, help="folder for logs and data, kept; default: a new one, kept if the run fails"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="do not print the faults")
    return parser.parse_args()


def _kinds(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    unknown = sorted(set(found) - set(KINDS))
    if unknown or not found:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: give some of {', '.join(KINDS)}")
    return found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; all was ended and removed", file=sys.stderr)
        sys.exit(130)
