"""`python -m tests.simulator --seed 4711 --trace` shows a run; `--seeds 0:1000` sweeps; `--failover` measures."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulator.failover import measure
from tests.simulator.run import STEPS, Failure, run

PROGRESS_S = 5.0


def main() -> int:
    args = _arguments()
    if args.failover:
        for text in measure(range(args.failover), args.primaries or 3):
            print(text)
        return 0
    seeds = range(args.seed, args.seed + 1) if args.seed is not None else args.seeds
    began = said = time.monotonic()
    steps = reigns = slowest_ms = 0
    for done, seed in enumerate(seeds, 1):
        try:
            outcome = run(seed, steps=args.steps, primaries=args.primaries, tell=print if args.trace else None)
        except Failure as failure:
            print(failure, flush=True)
            return 1
        steps += outcome.steps
        reigns += outcome.reigns
        slowest_ms = max(slowest_ms, outcome.peace_ms)
        now = time.monotonic()
        if now - said >= PROGRESS_S:
            said = now
            rate = done / (now - began)
            print(f"{done} of {len(seeds)} seeds, {rate:.0f}/s, none failed", file=sys.stderr, flush=True)
    took_s = time.monotonic() - began
    print(
        f"{len(seeds)} seeds passed in {took_s:.1f} s ({len(seeds) / took_s:.0f}/s): {steps} steps, {reigns} reigns, "
        f"a root at most {slowest_ms} ms after all was well"
    )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this seed")
    which.add_argument("--seeds", type=_seeds, metavar="FROM:TO", help="run the seeds from FROM to TO - 1")
    which.add_argument("--failover", type=int, metavar="RUNS", help="measure how long a cluster is without a root")
    parser.add_argument("--steps", type=int, default=STEPS, help="events until all is well again (%(default)s)")
    parser.add_argument("--primaries", type=int, choices=range(1, 16), metavar="N", help="else by the seed")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    return parser.parse_args()


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    try:
        seeds = range(int(first), int(last))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not FROM:TO, as 0:1000") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"no seeds from {first} to before {last}")
    return seeds


if __name__ == "__main__":
    sys.exit(main())
