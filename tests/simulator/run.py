"""One seed from its start to its end: whole nodes in chaos, then peace, and then everything is looked at."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from openclust.broker.model.limits import Limits
from openclust.cluster.protocol.bounds import Bounds
from tests.simulator.chaos import Chaos
from tests.simulator.clients import Clients, drain
from tests.simulator.disk import Disk
from tests.simulator.invariants import Failure, Violation
from tests.simulator.nodes import Nodes
from tests.simulator.peace import clean_up, look_at_all, settle
from tests.simulator.probes import probe_feed, probe_private, probe_shared
from tests.simulator.workload import Workload

STEPS = 2_000
PRIMARIES = (1, 2, 3, 3, 3, 3, 4, 5)
SECONDARIES = (0, 0, 1, 1, 2, 3)
GRACES_MS = (300, 300, 1_000, 5_000)
CHECKPOINT_MESSAGES = (2, 20, 5_000)
QUEUE_MEMORY_BYTES = (0, 2_000, 2**28)
DISKS = (True, True, True, False)
ROOT_WAIT_MS = 2_000
ANSWER_US = 3 * ROOT_WAIT_MS * 1_000
FINISHED_US = 5_000_000
DRAINED_US = 3_000_000
BLACK_OUTS = 0.4
"""How often the chaos ends with all brokers gone at once, just when no disk keeps up."""
SLOW_DISKS_US = 100_000
LAST_LINK_US = 700_000
"""So long after the chaos the last that was under way has come, and all links are made."""


class Outcome(msgspec.Struct, frozen=True):
    """What a run without a violation was like. `peace_ms` is from the end of the chaos until one root led all."""

    steps: int
    reigns: int
    peace_ms: int
    messages: int


def run(
    seed: int,
    *,
    steps: int = STEPS,
    primaries: int | None = None,
    secondaries: int | None = None,
    disk: type[Disk] = Disk,
    tell: Callable[[str], None] | None = None,
) -> Outcome:
    """Run it; raises Failure."""
    shape = random.Random(seed)
    bounds = Bounds(
        root_wait_ms=ROOT_WAIT_MS,
        log_entries_max=shape.choice((3, 10, 100_000)),
        checkpoint_messages=shape.choice(CHECKPOINT_MESSAGES),
        # Snapshots of some turns, of many, and of one.
        slice_max=(7, 1, 1_000)[seed % 3],
    )
    world = Nodes(
        seed,
        primaries or shape.choice(PRIMARIES),
        shape.choice(SECONDARIES) if secondaries is None else secondaries,
        bounds=bounds,
        limits=Limits(queue_memory_bytes=shape.choice(QUEUE_MEMORY_BYTES)),
        start_grace_ms=shape.choice(GRACES_MS),
        has_disks=shape.choice(DISKS),
        disk=disk,
        tell=tell,
    )
    try:
        workload = Workload(world, bound_us=ANSWER_US)
        clients = Clients(world)
        chaos = Chaos(world)
        chaos.begin()
        world.run(steps=steps)
        if shape.random() < BLACK_OUTS:
            chaos.slow_disks()
            world.run(until_us=world.now_us + SLOW_DISKS_US)
            chaos.black_out()
        chaos.end()
        workload.end()
        world.run(until_us=world.now_us + LAST_LINK_US)
        peace_ms = settle(world)
        clients.finish(FINISHED_US)
        look_at_all(world, ANSWER_US)
        drain(world, clients.promises, DRAINED_US)
        probe_private(world)
        probe_shared(world)
        probe_feed(world)
        clean_up(world)
    except Violation as error:
        raise Failure(_report(world, seed, steps, primaries, secondaries, error)) from error
    return Outcome(world.steps, len(world.roots), peace_ms, world.ledger.count)


def _report(
    world: Nodes, seed: int, steps: int, primaries: int | None, secondaries: int | None, error: Violation
) -> str:
    options = f" --steps {steps}" if steps != STEPS else ""
    options += f" --primaries {primaries}" if primaries else ""
    options += f" --secondaries {secondaries}" if secondaries is not None else ""
    return "\n".join(
        [
            f"seed {seed}: {error}",
            *(f"  {each}" for each in world.describe()),
            "the last that happened:",
            *(world.line(each) for each in world.trace),
            f"see it again: python -m tests.simulator --seed {seed}{options} --trace",
        ]
    )
