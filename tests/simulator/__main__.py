"""Run whole clusters on a simulated network, clock and disk. `--seed 4711 --trace` shows one run; `--seeds 0:1000` runs
many; `--soak 600` runs new seeds for 600 seconds; `--failover 20` measures how long 20 clusters have no root.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import random
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, suppress
from functools import partial

from tests.simulator import election_run, run
from tests.simulator.code import BROKERS, SIMULATOR, digest
from tests.simulator.failover import measure
from tests.simulator.invariants import Failure

PROGRESS_S = 5.0
SOAK_SEEDS_MAX = 1_000_000
SEEDS_A_TASK = 20
TASKS_A_PROCESS = 25
"""Brokers that were killed are not all garbage: what waited for an acknowledgement holds on to them, as Python does not
look for cycles through it. A real broker lets go of it, or ends."""

Result = tuple[int, int, int, str]
"""Steps, reigns, milliseconds to a root after all was well; and the failure, if it was one."""


def main() -> int:
    args = _arguments()
    if args.failover:
        for text in measure(range(args.failover), args.primaries or 3):
            print(text)
        return 0
    # Also where a shell that put it into the background has it ignore Ctrl-C, and where it is ended by `kill`.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    _collect_seldom()
    seeds = _chosen(args)
    # What runs is what was loaded, whatever becomes of the files meanwhile.
    brokers, simulator = digest(BROKERS), digest(SIMULATOR)
    began = said = time.monotonic()
    ends = began + args.soak if args.soak else float("inf")
    done = steps = reigns = slowest_ms = failed = 0
    with ExitStack() as stack:
        # Who is stopped tells of the seeds before: they are those from the first on.
        stack.enter_context(suppress(KeyboardInterrupt))
        for done, result in enumerate(stack.enter_context(closing(_results(seeds, _one(args), args.jobs))), 1):
            steps += result[0]
            reigns += result[1]
            slowest_ms = max(slowest_ms, result[2])
            if result[3]:
                failed += 1
                print(result[3] if failed == 1 else result[3].partition("\n")[0], flush=True)
                if failed >= args.failures:
                    return 1
            now = time.monotonic()
            if now >= ends:
                break
            if now - said >= PROGRESS_S:
                said = now
                rate = done / (now - began)
                print(f"{done} of {len(seeds)} seeds, {rate:.0f}/s, {failed} failed", file=sys.stderr, flush=True)
    took_s = time.monotonic() - began
    if args.soak:
        seeds = range(seeds.start, seeds.start + done)
        print(f"seeds {seeds.start}:{seeds.stop}")
    print(
        f"{done - failed} of {len(seeds)} seeds passed in {took_s:.1f} s ({done / took_s:.1f}/s): "
        f"{steps} steps, {reigns} reigns, a root at most {slowest_ms} ms after all was well, "
        f"of brokers {brokers}, simulator {simulator}"
    )
    return 1 if failed or done < len(seeds) else 0


def _chosen(args: argparse.Namespace) -> range:
    if args.seed is not None:
        return range(args.seed, args.seed + 1)
    if args.soak:
        first = random.SystemRandom().randrange(1_000_000, 1_000_000_000)
        return range(first, first + SOAK_SEEDS_MAX)
    seeds: range = args.seeds
    return seeds


def _one(args: argparse.Namespace) -> Callable[[int], Result]:
    tell = print if args.trace else None
    if args.elections:
        steps = args.steps or election_run.STEPS
        return partial(_result, partial(election_run.run_elections, steps=steps, primaries=args.primaries, tell=tell))
    steps = args.steps or run.STEPS
    return partial(
        _result, partial(run.run, steps=steps, primaries=args.primaries, secondaries=args.secondaries, tell=tell)
    )


def _result(run_seed: Callable[..., run.Outcome | election_run.Outcome], seed: int) -> Result:
    try:
        outcome = run_seed(seed)
    except Failure as failure:
        return 0, 0, 0, str(failure)
    finally:
        _forget_world()
    return outcome.steps, outcome.reigns, outcome.peace_ms, ""


def _results(seeds: range, one: Callable[[int], Result], jobs: int) -> Generator[Result, None, None]:
    with ExitStack() as stack:
        if jobs < 2:
            yield from map(one, seeds)
        else:
            forked = multiprocessing.get_context("fork")
            pool = stack.enter_context(forked.Pool(jobs, _begin_process, maxtasksperchild=TASKS_A_PROCESS))
            yield from pool.imap(one, seeds, chunksize=SEEDS_A_TASK)


def _begin_process() -> None:
    # Signals are for the first process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _collect_seldom()


def _collect_seldom() -> None:
    """A world is garbage all at once, when its run is over: then it is looked for, and in long runs now and then."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


def _forget_world() -> None:
    """What is left then stays for good (see `TASKS_A_PROCESS`): it is not looked at again after each run."""
    gc.collect()
    gc.freeze()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this seed")
    which.add_argument("--seeds", type=_seeds, metavar="FROM:TO", help="run the seeds from FROM to TO - 1")
    which.add_argument(
        "--soak", type=float, metavar="SECONDS", help="run new seeds, from a random one on, for this time"
    )
    which.add_argument("--failover", type=int, metavar="RUNS", help="measure how long a cluster is without a root")
    parser.add_argument("--elections", action="store_true", help="elections only, without brokers and messages")
    parser.add_argument("--steps", type=int, help="events of a run, before all faults end")
    parser.add_argument("--primaries", type=int, choices=range(1, 16), metavar="N", help="default: drawn from the seed")
    parser.add_argument("--secondaries", type=int, choices=range(16), metavar="N", help="default: drawn from the seed")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that share a sweep (%(default)s)")
    parser.add_argument("--failures", type=int, default=1, metavar="N", help="stop at the Nth failure (%(default)s)")
    parser.add_argument("--trace", action="store_true", help="print every event")
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
